"""Lists as tool servers send them: what cannot be read of one tool is nobody else's trouble."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway import jsontext
from gateway.dialects import definitions, recognise
from gateway.dialects.definitions import DefinitionError, UnreadableTool
from gateway.dialects.lists import decode_list
from gateway.jsontext import JsonError

MARK = b"\xef\xbb\xbf"
DEEP = b"[" * 70 + b"]" * 70
SPOILT = [
    (DEEP, "it cannot be read: it is nested deeper than 62 levels"),
    (b"[" * 500 + b"]" * 500, "it cannot be read: it is nested deeper than 62 levels"),
    (b"1e999", "it cannot be read: Number out of range"),
    (b"9" * 4301, "it cannot be read: Integer value out of range"),
    (b'"\xff"', "it cannot be read: it is not valid UTF-8"),
    (b'"\\ud800"', "it cannot be read: it ends too early, or holds half a surrogate pair"),
    (b'{"\\udc00":1}', "it cannot be read: invalid utf-16 surrogate pair"),
]
WRAPPERS = [b'{"$schema":"otc://1.0","tools":%b}', b'{"items":%b,"more":{}}', b"%b"]


def entries(document: Any) -> list[Any]:
    return definitions.listed(document)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(("spoilt", "said"), SPOILT, ids=lambda one: one[:20])
def test_a_tool_that_cannot_be_read_spoils_no_other(wrapper: bytes, spoilt: bytes, said: str) -> None:
    tools = b'[{"id":"A.Good"},{"description":"x","id":"A.Bad","name":"A_Bad","input_schema":%b},{"id":"A.Best"}]'
    good, bad, best = entries(decode_list(wrapper % (tools % spoilt)))
    assert (good, best) == ({"id": "A.Good"}, {"id": "A.Best"})
    assert bad == {"id": "A.Bad", "name": "A_Bad"}
    with pytest.raises(DefinitionError) as refused:
        definitions.read_definition(bad, "kit")
    assert str(refused.value).startswith(said)


def test_of_a_tool_without_a_name_that_can_be_read_nothing_is_known() -> None:
    for entry in (b'{"id":[1e999]}', b"[1e999]", b'{"id":"\xff"}'):
        (tool,) = entries(decode_list(b'{"tools":[%b]}' % entry))
        assert isinstance(tool, UnreadableTool)
        assert tool == {}


def test_a_list_with_a_tool_that_cannot_be_read_is_otherwise_as_it_was_written() -> None:
    text = ' { "x" : {"\u00e9": [1, "\U0001f600"]} ,\n"items" : [ {"id":"A.\\u0042","n":12345678901234567890},'
    text += '\t{"id":"\u00e9","n":1e999} ] } '
    document = decode_list(text.encode())
    assert document["x"] == {"\u00e9": [1, "\U0001f600"]}
    good, bad = entries(document)
    assert good == {"id": "A.B", "n": 12345678901234567890}
    assert bad == {"id": "\u00e9"}


def test_what_a_tool_server_speaks_is_learned_from_the_others() -> None:
    document = decode_list(b'{"tools":[{"id":"A.B","x":1e999},{"toolkit":{"name":"A"}}]}')
    assert recognise.of_server((), document) is recognise.RFC


@pytest.mark.parametrize("document", [[], {"items": []}, {"tools": [{"id": "A.B"}], "$schema": "x"}, 7, None])
def test_any_other_list_is_what_it_says_with_or_without_a_mark(document: Any) -> None:
    text = json.dumps(document).encode()
    assert decode_list(text) == decode_list(MARK + text) == document


NO_LISTS = [
    b"",
    b"<html>",
    b'{"tools":[{"id":"A.B"}',
    b'{"tools":[{"id":"A.B"}]} more',
    b'{"tools":[NaN,{"id":"A.B"}]}',
    b'{"tools":[1e999,]}',
    b'{"tools":[1e999 2]}',
    b'{"tools":[1e999]"x":1}',
    b'{"tools" [1e999]}',
    b"{7:[1e999]}",
    b'{"tools":[1e999',
    b'{"tools":1e999}',
    b'{"tools":[],"more":1e999}',
    b"1e999",
    DEEP + b"x",
    b'{"tools":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
]


@pytest.mark.parametrize("text", NO_LISTS, ids=lambda text: text[:30])
def test_what_is_no_json_or_spoilt_beside_its_tools_is_refused_as_any_text_is(text: bytes) -> None:
    with pytest.raises(JsonError) as refused:
        decode_list(text)
    with pytest.raises(JsonError) as plainly:
        jsontext.decode(text)
    assert str(refused.value) in (str(plainly.value), "Number out of range")
