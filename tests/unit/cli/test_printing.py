"""What is printed: tables that fit, values untouched, nothing that steers a terminal, curl lines a shell takes."""

from __future__ import annotations

import json

import pytest

from gateway.cli.demo import introduction
from gateway.cli.output import complain, count, first_line, print_answer, print_value, say, table
from gateway.cli.remarks import remarks_on
from gateway.core.model import JsonObject

HEAD = ("NAME", "TEXT")
ROWS = [("a", "x" * 50), ("long-name", "y")]


@pytest.mark.parametrize(("width", "shown"), [(None, "x" * 50), (40, "x" * 26 + "..."), (5, "x" * 17 + "...")])
def test_the_last_column_is_cut_to_the_width_of_the_terminal(width: int | None, shown: str) -> None:
    assert table(HEAD, ROWS, width) == ["NAME       TEXT", f"a          {shown}", "long-name  y"]


def test_the_widest_column_makes_room_when_the_last_has_too_little() -> None:
    rows = [("a", "x" * 50, "-", "y" * 50), ("b", "z", "-", "w")]
    first, second = table(("A", "B", "C", "D"), rows, 60)[1:]
    assert first == f"a  {'x' * 29}...  -  {'y' * 17}..."
    assert second == f"b  z{' ' * 31}  -  w"


def test_counts_and_first_lines_read_well() -> None:
    assert (count(0, "tool"), count(1, "tool"), count(2, "tool")) == ("0 tools", "1 tool", "2 tools")
    assert first_line("\n  Adds. \n More.") == "Adds."


def test_nothing_printed_for_people_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    complain("\x1b]0;title\x07 grüß", "two\nlines")
    say("\x9b2J", "\u202egnol")
    out, err = capsys.readouterr()
    assert err == "\\x1b]0;title\\x07 grüß\ntwo\\nlines\n"
    assert out == "\\x9b2J\n\\u202egnol\n"


@pytest.mark.parametrize(
    ("value", "printed"), [(42, "42"), (None, "null"), ("a\tb\n", "a\tb\n"), (["ü"], '[\n  "ü"\n]'), (1e22, "1e+22")]
)
def test_a_value_is_printed_for_pipes(capsys: pytest.CaptureFixture[str], value: object, printed: str) -> None:
    print_value(value)
    assert capsys.readouterr().out == printed + "\n"


def test_an_answer_keeps_every_number_as_it_was_sent(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(b'{"value":1.10,"n":123456789012345678901234567890}')
    assert capsys.readouterr().out == '{\n  "value": 1.10,\n  "n": 123456789012345678901234567890\n}\n'


def test_an_answer_steers_no_terminal_and_hides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    hidden = {"\x9bname\u202e": '\x85\u2028\u200b\U000e0041\x7f\x1b[2J ü 日本 \\ " 👍'}
    print_answer(json.dumps(hidden, ensure_ascii=False).encode())
    printed = capsys.readouterr().out
    assert json.loads(printed) == hidden
    assert printed.replace("\n", "").isprintable()
    assert "ü 日本" in printed
    assert "👍" in printed


def test_the_token_stands_in_the_link_and_in_one_other_line() -> None:
    urls = ("http://127.0.0.1:8080", "http://127.0.0.1:9464")
    screen = introduction(*urls, token="the.token", command="toolgate")
    assert screen.count("the.token") == 2
    assert f"{urls[1]}/console/#credential=the.token" in screen.splitlines()
    assert all(
        line.count('"Authorization: Bearer $TOOLGATE_TOKEN"') for line in screen.splitlines() if "curl -" in line
    )


def test_remarks_begin_with_what_is_down() -> None:
    """Those about single backends and routes: tests/live/cli/test_check_screen.py."""
    found = {
        "state": {"up": False, "cause": "no answer"},
        "authorization": {"up": False, "service": "http://opa", "cause": "status 500"},
        "telemetry": {"up": False, "url": "http://c/v1/traces", "cause": "Connection refused"},
        "issuers": {"https://id": {"up": False, "last_error": "status 500"}, "https://well": {"up": True}},
        "backends": {},
        "routes": [{"number": 3, "tools": "C.D", "backend": "one", "deny": True, "takes": 0, "fits": 1}],
        "tools": [
            {
                "id": "C.D@1.0.0",
                "backend": "one",
                "description": " \n",
                "takes_anything": False,
                "unchecked_output": "It is recursive.",
            },
            {"id": "C.E@1.0.0", "backend": "one", "description": "", "takes_anything": True, "unchecked_output": None},
            {
                "id": "C.F@1.0.0",
                "backend": "one",
                "description": "x" * 1025,
                "takes_anything": False,
                "unchecked_output": None,
            },
            {
                "id": "C.G@1.0.0",
                "backend": "one",
                "description": "Good.",
                "takes_anything": True,
                "unchecked_output": None,
            },
        ],
    }
    assert [(remark.kind, remark.text) for remark in remarks_on(found)] == [
        ("state_down", "state is down: no answer"),
        ("authorization_down", "authorize: the service gives no decision: status 500"),
        ("telemetry_down", "telemetry: http://c/v1/traces takes no spans: Connection refused"),
        ("issuer_down", "auth: the keys of https://id cannot be fetched: status 500"),
        ("route_unused", "one: route 3 (C.D) hides nothing: earlier routes match all of its tools"),
        (
            "description_missing",
            "one: 2 tools without a description, so models cannot know their use: C.D@1.0.0, C.E@1.0.0",
        ),
        (
            "description_long",
            "one: 1 description of more than 1024 characters, of which many models see only the beginning: C.F@1.0.0",
        ),
        (
            "input_unchecked",
            "one: 2 tools without a schema of the input, so that arguments are not checked: C.E@1.0.0, C.G@1.0.0",
        ),
        ("output_unchecked", "one: results of C.D@1.0.0 cannot be checked: It is recursive."),
    ]


def test_a_backend_with_thousands_of_flaws_does_not_fill_the_screen() -> None:
    rejected = [{"id": f"A.B{number}@1.0.0", "reason": "Too large."} for number in range(1000)]
    backend: JsonObject = {"up": True, "cause": None, "rejected": rejected, "unrouted": [], "report": None}
    backend["silent"] = {"http://b": "status 500"}
    found = {"state": {"up": True}, "issuers": {}, "backends": {"one": backend}, "routes": [], "tools": []}
    silent, *first, last = remarks_on(found | {"authorization": None, "telemetry": None})
    assert silent.text == "one: http://b does not answer (status 500)"
    assert len(first) == 20
    assert last.text == "one: 980 more tools not published; --json has all of them"
