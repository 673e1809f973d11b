"""What callers may write in a call: tool ids, members, ids, context."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallContext, ToolCall, ToolRef
from gateway.core.ports import ANONYMOUS
from gateway.core.surfaces import RefusedOpening
from gateway.core.wire import Head
from gateway.protocols.otc import surface as otc_surface
from gateway.protocols.otc.surface import REST
from tests.wire import DIALECTS

# The members of a call are read by the same functions in all dialects; `otc` stands for them.
STRICT = [name for name in DIALECTS if name != "lc"]


def decode(name: str, **members: Any) -> ToolCall:
    dialect = otc_surface.DIALECTS[name]
    request = {"tool_id": "A.B"} | members
    return dialect.decode_call(request if name == "oxp" else {"request": request})


def refused(name: str, **members: Any) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        decode(name, **members)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    return caught.value


TOOL_IDS = [
    ("A.B", "A.B", None),
    ("A.B@1.2.3", "A.B", "1.2.3"),
    ("A.B@1", "A.B", "1.0.0"),  # exactly, never the highest 1.x
    ("A.B@0", "A.B", "0.0.0"),
    ("A.B@01.0.0", "A.B", "1.0.0"),  # numbers, not texts
    ("A.B@1.002.3", "A.B", "1.2.3"),
    ("A.B@10.0.0", "A.B", "10.0.0"),
    ("A.B@99999999999999999999", "A.B", "99999999999999999999.0.0"),
    ("a.b", "a.b", None),  # nothing folds case
    ("Tool_Kit2.do_it_9@1", "Tool_Kit2.do_it_9", "1.0.0"),
    ("_._", "_._", None),
    ("A." + "b" * 254, "A." + "b" * 254, None),
]


@pytest.mark.parametrize(("wire_id", "tool", "version"), TOOL_IDS)
def test_a_tool_id_means_a_tool_and_a_version(wire_id: str, tool: str, version: str | None) -> None:
    assert decode("otc", tool_id=wire_id).ref == ToolRef(tool=tool, version=version)


NO_VERSIONS = ["", "1.2", "1.", "1.2.", "1.2.3.4", "v1", "-1.0.0", "+1", "1.0.0-rc1", "1.0.0+b", "1@2", "LATEST"]
NO_TOOL_IDS: list[Any] = [
    *(f"A.B@{version}" for version in NO_VERSIONS),
    *("add", "Calculator_Add", ".B", "A.", "A.B.C", "A-B.C", "A.B-C"),
    *("", " A.B", "A.B ", "A.B\n", "A.B@1\n", "A.B@1.0.0\n", "A.B\u0000"),
    *("A.B@\u0661", "A.B@1\u00b2", "\u0410.B", "A.\uff22"),  # an Arabic digit, a Cyrillic letter
    *("A." + "b" * 255, "A.B@" + "9" * 253, None, 7, ["A.B"]),
]


@pytest.mark.parametrize("wire_id", NO_TOOL_IDS, ids=ascii)
def test_a_text_that_is_no_tool_id_is_refused(wire_id: Any) -> None:
    refused("otc", tool_id=wire_id)


@pytest.mark.parametrize("name", [*STRICT, "lc"])
def test_the_tool_id_is_required(name: str) -> None:
    with pytest.raises(GatewayError):
        otc_surface.DIALECTS[name].decode_call({} if name == "oxp" else {"request": {"input": {}}})


@pytest.mark.parametrize("name", DIALECTS)
def test_latest_is_a_word_of_the_rfc_alone(name: str) -> None:
    if name == "rfc":
        assert decode(name, tool_id="A.B@latest").ref == ToolRef(tool="A.B")
    else:
        refused(name, tool_id="A.B@latest")


def test_latest_beside_a_version_is_said_to_be_one_too_many() -> None:
    with pytest.raises(GatewayError, match=r"^The tool_id names two versions\.$"):
        decode("rfc", tool_id="A.B@1@latest")


@pytest.mark.parametrize("wire_id", ["A.B@1@latest", "A.B@latest@latest", "A.B@@latest", "@latest", "latest"])
def test_latest_stands_for_the_whole_version(wire_id: str) -> None:
    refused("rfc", tool_id=wire_id)


LC_IDS = [
    ("add", "add", None, True),
    ("Calculator_Add", "Calculator_Add", None, True),
    ("do-it", "do-it", None, True),
    ("add@1.2.0", "add", "1.2.0", True),
    ("greet@1", "greet", "1.0.0", True),
    ("greet@1.2", "greet", "1.2.0", True),  # padded, as their server does
    ("A.B@1.2", "A.B", "1.2.0", False),
    ("A.B@01", "A.B", "1.0.0", False),
    ("A.B", "A.B", None, False),
    ("a" * 64, "a" * 64, None, True),
]


@pytest.mark.parametrize(("wire_id", "tool", "version", "by_name"), LC_IDS)
def test_the_langchain_family_may_use_names(wire_id: str, tool: str, version: str | None, by_name: bool) -> None:
    assert decode("lc", tool_id=wire_id).ref == ToolRef(tool=tool, version=version, by_name=by_name)


NO_LC_IDS: list[Any] = [
    *("", "a" * 65, "a b", "a@", "a@1.2.3.4", "a@1@2", "a@v1", "a\n", "a@1\n", "A.B-C", "a@" + "9" * 21, "a@\u0661"),
    *(None, 7),
]


@pytest.mark.parametrize("wire_id", NO_LC_IDS, ids=ascii)
def test_a_text_that_is_neither_id_nor_name_is_refused_there_too(wire_id: Any) -> None:
    refused("lc", tool_id=wire_id)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("document", [None, [], "x", 7, {"request": None}, {"request": []}, {"request": "x"}])
def test_a_body_that_is_no_request_object_is_refused(name: str, document: Any) -> None:
    try:
        opened = REST.open(Head(method="POST", path="/tools/call", headers={}, dialect=name), document, ANONYMOUS)
    except GatewayError as error:  # the body is no object at all
        opened = RefusedOpening(otc_surface.DIALECTS[name], error)
    assert isinstance(opened, RefusedOpening)
    assert opened.error.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("member", ["tool", "user_id", "Input", "$schema", "request", ""])
def test_a_call_is_a_closed_object(member: str) -> None:
    assert repr(member) in refused("otc", **{member: {}}).message


def test_a_long_unknown_member_is_not_quoted_whole() -> None:
    assert len(refused("otc", **{"x" * 5000: 1}).message) < 200


def test_the_langchain_family_may_send_members_of_its_own_and_nulls() -> None:
    call = decode("lc", user_id="u", extra=[1], call_id=None, trace_id=None, context=None, input=None)
    assert call == ToolCall(ref=ToolRef(tool="A.B"), arguments={})


def test_an_absent_input_is_an_empty_one_and_one_that_is_no_object_is_refused() -> None:
    assert decode("otc").arguments == {}
    wrong: list[Any] = [None, [], "x", True]
    for arguments in wrong:
        refused("otc", input=arguments)


def test_inputs_is_another_word_for_input_in_the_rfc_alone() -> None:
    assert decode("rfc", inputs={"a": 1}).arguments == {"a": 1}
    assert "not both" in refused("rfc", inputs={}, input={}).message
    refused("rfc", inputs=[])
    for name in ("otc", "oxp", "oxp-env"):
        assert "did you mean 'input'?" in refused(name, inputs={"a": 1}).message
    assert decode("lc", inputs={"a": 1}).arguments == {}  # their servers ignore it


@pytest.mark.parametrize("call_id", ["x", "a b/c%20\u007e", "~" * 256, " "])
def test_a_call_id_is_kept_as_it_is(call_id: str) -> None:
    assert decode("otc", call_id=call_id).call_id == call_id


@pytest.mark.parametrize("call_id", ["", "x" * 257, "a\n", "a\u0000", "\u007f", "é", 7, True, [], {}], ids=ascii)
def test_a_call_id_outside_its_bounds_is_refused(call_id: Any) -> None:
    refused("otc", call_id=call_id)


def test_a_trace_id_is_any_text_of_bounded_length() -> None:
    assert decode("otc", trace_id="é" * 1024).trace_id == "é" * 1024
    refused("otc", trace_id="x" * 1025)
    refused("otc", trace_id=7)


CONTEXTS: list[tuple[dict[str, Any], CallContext]] = [
    ({"authorization": [], "secrets": [], "user_id": None}, CallContext()),
    ({"user_id": ""}, CallContext()),
    ({"user_id": "u", "user_info": {"a": [1]}, "other": 7}, CallContext(user_id="u", user_info={"a": [1]})),
    (
        {"authorization": [{"id": "a", "token": "t", "more": 1}], "secrets": [{"id": "s", "value": ""}]},
        CallContext(tokens={"a": "t"}, secrets={"s": ""}),
    ),
    ({"group_id": "g", "thread_ancestors": ["r"] * 64}, CallContext(group="g", ancestors=("r",) * 64)),
    ({"group_id": None, "thread_ancestors": None}, CallContext()),
    ({"secrets": [{"id": "s", "value": "1"}, {"id": "s", "value": "2"}]}, CallContext(secrets={"s": "2"})),
]


@pytest.mark.parametrize(("context", "expected"), CONTEXTS)
def test_a_context_is_read_whole(context: dict[str, Any], expected: CallContext) -> None:
    assert decode("otc", context=context).context == expected


NO_TOKENS: list[Any] = [{}, None, ["t"], [{"id": "a"}], [{"token": "t"}], [{"id": 1, "token": "t"}]]
NO_ANCESTORS: list[Any] = [["r"] * 65, [7], "", False, {}]
NO_CONTEXTS: list[Any] = [
    *([], "x", {"user_id": 7}, {"group_id": 7}, {"secrets": {"s": "v"}}, {"secrets": [{"id": "s", "value": 1}]}),
    *({"authorization": tokens} for tokens in NO_TOKENS),
    *({"thread_ancestors": names} for names in NO_ANCESTORS),
]


@pytest.mark.parametrize("context", NO_CONTEXTS, ids=repr)
def test_a_context_of_another_shape_is_refused_without_quoting_it(context: Any) -> None:
    assert "'t'" not in refused("otc", context=context).message
