"""Whatever is in a file: it is a Config or a ConfigError, and no secret comes out."""

from __future__ import annotations

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.core.errors import ConfigError
from gateway.settings.load import read
from tests.unit.settings.configured import schema

CANARY = "correct-horse-battery-staple-0123456789"
KEYS = sorted({name for section in schema()["$defs"].values() for name in section["properties"]})
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["none", "otc", "oxp", "10s", "1MiB", "*", "http://x", "crm", "${env:SECRET}", "${file:x}", "$$"]),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*KEYS, "crm"]), inner, max_size=5)
    ),
    max_leaves=20,
)


def attempt(text: str) -> list[str]:
    try:
        read(text, env={"SECRET": CANARY})
    except ConfigError as error:
        return [str(error), *error.problems]
    return []


@given(st.text())
@settings(max_examples=50, deadline=None)
@example('"\\UFFFFFFFF"')
@example("\ud800")
@example("a: !<%ff> b")
def test_any_text_is_a_config_or_a_config_error(text: str) -> None:
    attempt(text)


@given(TREES.map(lambda tree: yaml.safe_dump(tree, allow_unicode=True)))
@settings(max_examples=40, deadline=None)
def test_any_tree_of_known_keys_is_a_config_or_a_config_error(text: str) -> None:
    attempt(text)


LITERAL = f"""auth:
  jwt:
    - secret: {CANARY}
      issuer: a
    - {{secret: {CANARY}, issuer: b}}
state:
  keys:
    - {CANARY}
    - "x{CANARY}"
backends:
  a: {{protocol: otc, url: http://x, auth: {{bearer: {CANARY}}}}}
  b:
    protocol: otc
    url: http://x
    auth:
      jwt: {{secret: '{CANARY}'}}
routes:
  - tools: "*"
    backend: a
    secrets: {{K: {CANARY}}}
"""


@given(st.integers(0, len(LITERAL)), st.integers(0, 3), st.sampled_from(["", *" \t\n:,-?#&*!|>'\"%@`{}[]$\\", "${"]))
@settings(max_examples=40, deadline=None)
def test_no_slip_of_the_pen_brings_a_secret_into_a_problem(offset: int, deleted: int, inserted: str) -> None:
    text = LITERAL[:offset] + inserted + LITERAL[offset + deleted :]
    assert CANARY not in "\n".join(attempt(text))


def test_the_file_those_slips_start_from_is_good() -> None:
    assert attempt(LITERAL) == []
