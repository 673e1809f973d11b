"""Log lines: valid JSON and one line each, whatever is put into them."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.logs import output
from tests.support.terminal import own_logging


def record(message: str = "message", **extras: object) -> logging.LogRecord:
    made = logging.LogRecord("gateway.test", logging.WARNING, __file__, 1, message, (), None)
    vars(made).update(extras)
    return made


def as_json(made: logging.LogRecord) -> dict[str, object]:
    """The line a program reads."""
    line = output.JsonLines().format(made)
    line.encode()
    assert "\n" not in line
    document = json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert isinstance(document, dict)
    return document


def test_a_line_has_its_time_level_logger_message_and_extras() -> None:
    made = record("a call", backend="mail", status=200)
    made.created = 0.5
    assert as_json(made) == {
        "time": "1970-01-01T00:00:00.500Z",
        "level": "warning",
        "logger": "gateway.test",
        "message": "a call",
        "backend": "mail",
        "status": 200,
    }


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


EXTRAS = [
    (b"bytes \xff", "bytes \ufffd"),
    (ValueError("an exception"), "an exception"),
    ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    (2**70, str(2**70)),
    (True, True),
    (None, None),
    (["a", 1, b"b"], ["a", 1, "b"]),
    ({"key": {1: ("x",)}}, {"key": {"1": ["x"]}}),
    (Unprintable(), "<Unprintable>"),
    (10**5000, "<int>"),
]


@pytest.mark.parametrize(("value", "written"), EXTRAS, ids=[type(value).__name__ for value, _ in EXTRAS])
def test_an_extra_of_any_kind_becomes_json(value: object, written: object) -> None:
    assert as_json(record(extra=value))["extra"] == written


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary()
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=20,
)


@given(ANYTHING, st.text(st.characters(exclude_categories=[])))
def test_every_line_can_be_read_back(value: object, message: str) -> None:
    made = record("%s", extra=value)
    made.args = (message,)
    assert as_json(made)["level"] == "warning"
    output.TextLines().format(made).encode()


def test_nesting_and_length_have_a_limit() -> None:
    endless: list[object] = []
    endless.append(endless)
    as_json(record(extra=endless))
    many = as_json(record(extra=list(range(1000))))["extra"]
    assert isinstance(many, list)
    assert len(many) == output.MAX_ITEMS


def test_an_extra_cannot_pose_as_what_the_line_is() -> None:
    assert as_json(record(level="debug", time="never", logger="other"))["level"] == "warning"


def with_exception() -> logging.LogRecord:
    made = record()
    try:
        raise ValueError("no \x1b[2J good")
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


def test_an_exception_is_part_of_the_line() -> None:
    assert "ValueError: no \x1b[2J good" in str(as_json(with_exception())["exception"])


def test_text_has_its_extras_in_brackets() -> None:
    assert output.TextLines().format(record(backend="mail", n=1)).endswith(" WARNING message (backend=mail, n=1)")


def test_text_cannot_steer_the_terminal_or_forge_a_line() -> None:
    text = output.TextLines().format(record("a\nb", extra="\x1b[2J\r\n12:00:00 ERROR forged"))
    assert text.isprintable()
    *trace, last = output.TextLines().format(with_exception()).splitlines()
    assert last == r"ValueError: no \x1b[2J good"
    assert all(line.isprintable() for line in trace)


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    """Puts the handlers back that `configure` replaces, and closes its own."""
    httpx = logging.getLogger("httpx")
    level = httpx.level
    with own_logging():
        yield
        for handler in logging.getLogger().handlers:
            handler.close()
    httpx.setLevel(level)


def messages_in(text: str) -> list[str]:
    return [json.loads(line)["message"] for line in text.splitlines()]


@pytest.mark.usefixtures("untouched_logging")
def test_lines_below_the_level_and_urls_that_httpx_logs_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    lines = output.configure("info", "json")
    assert lines is not None
    logging.getLogger("gateway.x").debug("debug")
    logging.getLogger("gateway.x").info("info")
    logging.getLogger("httpx").info("HTTP Request: GET http://gateway/challenges/a-token")
    lines.close()
    assert messages_in(capfd.readouterr().err) == ["info"]


@pytest.mark.usefixtures("untouched_logging")
def test_requests_are_not_written_down_where_only_warnings_are_wanted() -> None:
    assert output.configure("warning", "json") is None


@pytest.mark.usefixtures("untouched_logging")
def test_an_error_that_is_no_file_gets_its_lines_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert output.configure("info", "json") is None
    logging.getLogger("gateway.x").warning("warning")
    assert messages_in(capsys.readouterr().err) == ["warning"]


@pytest.mark.usefixtures("untouched_logging")
def test_a_message_whose_arguments_do_not_fit_stops_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    lines = output.configure("info", "json")
    assert lines is not None
    logging.getLogger("gateway.x").info("%d of these", "none")
    logging.getLogger("gateway.x").info("lone \ud800 surrogate")
    lines.close()
    assert messages_in(capfd.readouterr().err.splitlines()[-1]) == ["lone \\ud800 surrogate"]
