"""What the YAML reader lets through, and where it says that things stand."""

from __future__ import annotations

import time

import pytest

from gateway.configfile.yamlnode import MAX_CHARACTERS, YamlError, parse


def test_aliases_that_multiply_are_stopped_before_they_do() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    started = time.process_time()
    with pytest.raises(YamlError, match="makes more than 1000000 nodes, aliases expanded") as caught:
        parse("\n".join(lines))
    assert caught.value.mark.line == 6
    assert time.process_time() - started < 5  # milliseconds; for all of them, days


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_nesting_is_stopped_before_the_stack_is(opening: str) -> None:
    with pytest.raises(YamlError, match="nested deeper than 32 levels"):
        parse(opening * 20_000)


def test_a_text_that_is_too_large_is_not_looked_at() -> None:
    with pytest.raises(YamlError, match="is larger than 4194304 characters"):
        parse(" " * (MAX_CHARACTERS + 1))
