"""What `toolgate call` makes of its words: a CallToolRequest of OXP 1.0."""

from __future__ import annotations

import argparse

import pytest

from gateway.cli import call
from gateway.cli.call import typed
from gateway.core.model import Json


def asked(*words: str) -> Json:
    """The request that these words ask for."""
    parser = argparse.ArgumentParser()
    call.add_arguments(parser)
    return typed(parser.parse_intermixed_args(["--call-id", "c", *words]))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("-2.5", -2.5),
        ("true", True),
        ("null", None),
        ('"12"', "12"),
        ('{"a": [1]}', {"a": [1]}),
        ("two words", "two words"),
        ("a=b", "a=b"),
        ("", ""),
        ("007", "007"),
        ("+4712345678", "+4712345678"),
        ("NaN", "NaN"),  # not JSON, whatever Python says
        ("1e999", "1e999"),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("grüß", "grüß"),
    ],
)
def test_a_value_is_json_where_it_can_be_and_else_text(text: str, value: Json) -> None:
    assert asked("A.B", f"key={text}") == {"call_id": "c", "tool_id": "A.B", "input": {"key": value}}


def test_options_may_stand_between_the_arguments() -> None:
    assert asked("A.B", "--json", "a=1", "--call-id", "mine", "b=2") == {
        "tool_id": "A.B",
        "call_id": "mine",
        "input": {"a": 1, "b": 2},
    }


def test_arguments_complete_the_input() -> None:
    assert asked("A.B", "b=3", "--input", '{"a": 1, "b": 2}')["input"] == {"a": 1, "b": 3}


def test_the_context_is_there_only_when_something_is_in_it() -> None:
    assert "context" not in asked("A.B")
    words = ("--user-id", "u", "--secret", "S=x=y", "--authorization", "mail=t", "--authorization", "cal=t2")
    assert asked("A.B", *words)["context"] == {
        "user_id": "u",
        "secrets": [{"id": "S", "value": "x=y"}],
        "authorization": [{"id": "mail", "token": "t"}, {"id": "cal", "token": "t2"}],
    }
