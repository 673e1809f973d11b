"""What the YAML reader lets through, and where it says that things stand."""

from __future__ import annotations

import time

import pytest

from gateway.settings.yamlnode import MAX_CHARACTERS, Mapping, Mark, Scalar, Sequence, YamlError, parse


def test_nodes_know_their_position_counted_from_one() -> None:
    root = parse("# first\na: x\nb:\n  - 'y'\n")
    assert isinstance(root, Mapping)
    (a, x), (b, items) = root.entries
    assert (a.mark, x.mark, b.mark) == (Mark(2, 1), Mark(2, 4), Mark(3, 1))
    assert isinstance(items, Sequence)
    assert items.items == (Scalar("y", plain=False, mark=Mark(4, 5)),)


@pytest.mark.parametrize("text", ["no", "010", "1:30", "0x1F", "null", "2026-11-20", "~", "1_000"])
def test_plain_scalars_stay_the_text_they_are(text: str) -> None:
    assert parse(text) == Scalar(text, plain=True, mark=Mark(1, 1))


@pytest.mark.parametrize("text", ["'no'", '"no"', "|-\n  no", ">-\n  no"])
def test_quotes_and_blocks_are_told_from_plain_scalars(text: str) -> None:
    assert parse(text) == Scalar("no", plain=False, mark=Mark(1, 1))


def test_an_alias_is_the_node_it_names() -> None:
    root = parse("a: &limits {x: 1}\nb: *limits\n")
    assert isinstance(root, Mapping)
    assert root.entries[0][1] is root.entries[1][1]


def test_keys_written_twice_are_both_there_for_the_reader_to_judge() -> None:
    root = parse("a: 1\na: 2\n")
    assert isinstance(root, Mapping)
    assert len(root.entries) == 2


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
        parse(opening * 100_000)


def test_a_text_that_is_too_large_is_not_looked_at() -> None:
    with pytest.raises(YamlError, match="is larger than 4194304 characters"):
        parse(" " * (MAX_CHARACTERS + 1))


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("a: 1\nb: x\x07\n", Mark(2, 5)),  # a control character
        ('a: "\\U00110000"\n', Mark(1, 7)),  # beyond Unicode
        ("%YAML 1." + "9" * 5000 + "\n---\na\n", Mark(1, 9)),  # more digits than int() takes
        ("a: [1, 2\nb: 3\n", Mark(2, 2)),
        ("a: @x\n", Mark(1, 4)),
        ("\ud800", Mark(1, 1)),
    ],
)
def test_what_is_not_yaml_is_refused_where_it_goes_wrong(text: str, mark: Mark) -> None:
    with pytest.raises(YamlError) as caught:
        parse(text)
    assert caught.value.mark == mark
