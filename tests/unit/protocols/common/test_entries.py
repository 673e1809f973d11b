"""Lists as tool servers send them: what cannot be read of one tool does not spoil the others."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from gateway.core.jsontext import JsonError
from gateway.core.tool_names import DefinitionError
from gateway.protocols.common import definitions
from gateway.protocols.common.definitions import UnreadableTool
from gateway.protocols.common.entries import open_list

MARK = b"\xef\xbb\xbf"
DEEP = b"[" * 70 + b"]" * 70
SPOILT = [
    (DEEP, "it cannot be read: it is nested deeper than 62 levels"),
    (b"[" * 500 + b"]" * 500, "it cannot be read: it is nested deeper than 62 levels"),
    (b"1e999", "it cannot be read: Number out of range"),
    (b"9" * 4301, "it cannot be read: Integer value out of range"),
    (b'"\xff"', "it cannot be read: it is not valid UTF-8"),
    (b'"\\ud800"', "it cannot be read: it is not valid UTF-8"),
    (b'"\\\\\\ud800\\\\"', "it cannot be read: it is not valid UTF-8"),
    (b'{"\\udc00":1}', "it cannot be read: it is not valid UTF-8"),
]
WRAPPERS = [b'{"$schema":"otc://1.0","tools":%b}', b'{"items":%b,"more":{}}', b'{"tools":null,"items":%b}', b"%b"]


def entries(text: bytes) -> list[Any]:
    return list(open_list(text, 100, 100_000)[1])


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(("spoilt", "said"), SPOILT, ids=lambda one: one[:20])
def test_a_tool_that_cannot_be_read_spoils_no_other(wrapper: bytes, spoilt: bytes, said: str) -> None:
    pair = rb'{"id":"A.Best","x":"\ud83c\udf9b \\ud800"}'  # a whole pair, and an escaped backslash
    tools = b'[{"id":"A.Good"},{"description":"x","id":"A.Bad","name":"A_Bad","input_schema":%b},%b]'
    good, bad, best = entries(MARK + wrapper % (tools % (spoilt, pair)))
    assert (good, best) == ({"id": "A.Good"}, {"id": "A.Best", "x": "\U0001f39b \\ud800"})
    assert bad == {"id": "A.Bad", "name": "A_Bad"}
    with pytest.raises(DefinitionError) as refused:
        definitions.read_definition(bad, "kit")
    assert str(refused.value).startswith(said)


def test_of_a_tool_without_a_name_that_can_be_read_nothing_is_known() -> None:
    for entry in (b'{"id":[1e999]}', b"[1e999]", b'{"id":"\xff"}', b'{"id":"\\ud800"}'):
        (tool,) = entries(b'{"tools":[%b]}' % entry)
        assert isinstance(tool, UnreadableTool)
        assert tool == {}


NO_LISTS = [b"7", b"null", b'"tools"', b"{}", b'{"tools":null}', b'{"items":{}}', b'{"tool":[]}', b'{"tools":1e999}']
NO_JSON = [
    *(b"", b"<html>", b'{"tools":[{"id":"A.B"}', b'{"tools":[{"id":"A.B"}]} more', b'{"tools":[NaN,{"id":"A.B"}]}'),
    *(b'{"tools":[1e999,]}', b'{"tools":["\\ud800"]"x":1}', b"{7:[1e999]}", DEEP + b"x"),
]


@pytest.mark.parametrize("text", NO_LISTS)
def test_an_answer_without_a_list_is_no_catalogue(text: bytes) -> None:
    with pytest.raises(DefinitionError):
        open_list(text, 1, 100)


def test_a_tool_that_is_nested_too_deeply_cannot_be_read() -> None:
    """Before Python 3.14 msgspec cannot read past it: then it costs the whole list."""
    text = b'{"tools":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}"
    try:
        [entry] = open_list(text, 1, len(text))[1]
    except JsonError:
        assert sys.version_info < (3, 14)
    else:
        assert isinstance(entry, UnreadableTool)


@pytest.mark.parametrize("text", NO_JSON, ids=lambda text: text[:30])
def test_what_is_no_json_is_refused_and_not_quoted(text: bytes) -> None:
    with pytest.raises(JsonError) as refused:
        open_list(text, 1, 100)
    assert str(refused.value)
    assert "A.B" not in str(refused.value)
