"""Telling the dialects apart where no prefix does: by head, then by the shape of the body. All of it is ours.

No specification says how; the rules follow from what real callers send.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import DIALECTS, SCHEMAS, Caller, call_body

pytestmark = pytest.mark.anyio

OTC_URL = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
FLAT = {"tool_id": "Text.Echo", "input": {"value": 1}}
ENVELOPED = {"request": FLAT}
FLAT_HEADER = {"oxp-version": "1.0"}
LC_AGENTS = ("universal-tool-sdk-py/0.0.2", "langchain-tool-sdk-py/1.0")
OXP_AGENT = "Oxp/Python 0.1.1"

CALLS = [
    pytest.param("/call", {}, ENVELOPED, "rfc", id="an envelope at /call"),
    pytest.param("/call", {}, FLAT, "oxp", id="a flat body at /call"),
    pytest.param("/call", {}, ENVELOPED | {"$schema": "otc://1.0"}, "otc", id="an OTC envelope at /call"),
    pytest.param("/call", {}, ENVELOPED | {"$schema": "urn:oxp:1.0"}, "oxp-env", id="an OXP envelope at /call"),
    pytest.param("/tools/call", {}, ENVELOPED, "otc", id="an envelope without version"),
    pytest.param("/tools/call", {}, ENVELOPED | {"$schema": "otc://1.0"}, "otc", id="an OTC envelope"),
    pytest.param("/tools/call", {}, ENVELOPED | {"$schema": OTC_URL}, "otc", id="an envelope with the shared address"),
    pytest.param("/tools/call", {}, ENVELOPED | {"$schema": "urn:oxp:1.0"}, "oxp-env", id="an OXP envelope"),
    pytest.param("/tools/call", {}, ENVELOPED | {"$schema": SCHEMAS["rfc"]}, "rfc", id="an RFC envelope"),
    pytest.param("/tools/call", {}, FLAT, "oxp", id="a flat body"),
    pytest.param("/tools/call", FLAT_HEADER, FLAT, "oxp", id="a flat body with its header"),
    pytest.param("/tools/call", FLAT_HEADER, ENVELOPED, "otc", id="an envelope in spite of the header"),
    *(pytest.param("/tools/call", {"user-agent": it}, ENVELOPED, "lc", id=it) for it in LC_AGENTS),
    pytest.param("/tools/call", {"user-agent": OXP_AGENT}, ENVELOPED, "otc", id="the OXP client without version"),
]


@pytest.mark.parametrize(("path", "headers", "body", "dialect"), CALLS)
async def test_a_call_is_answered_in_the_dialect_it_is_in(
    demo: Caller, path: str, headers: dict[str, str], body: dict[str, Any], dialect: str
) -> None:
    assert (await demo.post(dialect, path, body, headers=headers)).value == 1


@pytest.mark.parametrize(("path", "headers", "body", "dialect"), CALLS)
async def test_a_refusal_is_in_the_dialect_of_the_call_too(
    demo: Caller, path: str, headers: dict[str, str], body: dict[str, Any], dialect: str
) -> None:
    request = {"tool_id": "No.Tool"}
    wrong = body | ({"request": request} if "request" in body else request)
    assert (await demo.post(dialect, path, wrong, headers=headers)).status == 400


@pytest.mark.parametrize(
    ("headers", "body", "dialect"),
    [
        pytest.param({}, None, "otc", id="no hint"),
        pytest.param(FLAT_HEADER, None, "oxp", id="the header"),
        pytest.param(FLAT_HEADER, {"$schema": "otc://1.0"}, "oxp", id="the header before the body"),
        pytest.param({}, {"$schema": "otc://1.0"}, "otc", id="an OTC body"),
        pytest.param({}, {"$schema": "urn:oxp:1.0"}, "oxp-env", id="an OXP body"),
        pytest.param({}, {"$schema": SCHEMAS["rfc"]}, "rfc", id="an RFC body"),
        pytest.param({"user-agent": OXP_AGENT}, None, "oxp-env", id="the OXP client"),
        pytest.param({"user-agent": OXP_AGENT}, {}, "oxp-env", id="the OXP client in Go, with its body"),
        *(pytest.param({"user-agent": it}, None, "lc", id=it) for it in LC_AGENTS),
        pytest.param({"user-agent": "curl/8.0", "accept": "*/*"}, None, "otc", id="an unknown program"),
    ],
)
async def test_a_list_is_answered_in_the_dialect_it_is_asked_in(
    demo: Caller, headers: dict[str, str], body: Any, dialect: str
) -> None:
    assert len((await demo.list(dialect, "/tools", headers=headers, body=body)).ids) == 10


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(ENVELOPED | FLAT, id="both members"),
        pytest.param({}, id="neither member"),
        pytest.param({"$schema": "otc://1.0"}, id="a version alone"),
        pytest.param({"tool": "Text.Echo", "inputs": {"value": 1}}, id="a call of the ancestor"),
        pytest.param({"name": "Text_Echo", "args": {"value": 1}}, id="a call of the oldest LangChain server"),
    ],
)
@pytest.mark.parametrize("path", ["/tools/call", "/call"])
async def test_a_body_in_no_dialect_or_in_two_is_refused(demo: Caller, path: str, body: Any) -> None:
    assert (await demo.post("bare", path, body)).status == 400
    assert (await demo.post("oxp", path, body, headers=FLAT_HEADER)).status == 400


@pytest.mark.parametrize("path", ["/tools/call", "/call"])
@pytest.mark.parametrize("hint", [FLAT_HEADER, {"user-agent": LC_AGENTS[0]}, {"user-agent": OXP_AGENT}], ids=repr)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_prefix_overrides_every_hint(demo: Caller, dialect: str, hint: dict[str, str], path: str) -> None:
    answer = await demo.post(dialect, f"/{dialect}{path}", call_body(dialect, FLAT), headers=hint)
    assert answer.value == 1
    assert len((await demo.list(dialect, headers=hint)).ids) == 10


@pytest.mark.parametrize("schema", SCHEMAS.values())
@pytest.mark.parametrize("dialect", SCHEMAS)
async def test_a_schema_of_another_dialect_under_a_prefix_is_a_version_it_does_not_have(
    demo: Caller, dialect: str, schema: str
) -> None:
    answer = await demo.post(dialect, f"/{dialect}/tools/call", call_body(dialect, FLAT, schema))
    understood = {"otc://1.0", "urn:oxp:1.0"} if dialect == "lc" else {SCHEMAS[dialect]}
    assert answer.status == (200 if schema in understood else 400)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_body_of_another_shape_under_a_prefix_is_refused_in_its_dialect(demo: Caller, dialect: str) -> None:
    body = ENVELOPED if dialect == "oxp" else FLAT
    assert (await demo.post(dialect, f"/{dialect}/tools/call", body)).status == 400


@pytest.mark.parametrize("dialect", ["rfc", "otc", "oxp-env"])
async def test_an_enveloped_call_never_gets_a_flat_answer(demo: Caller, dialect: str) -> None:
    """Both official clients would read one as no result at all, without an error."""
    body = ENVELOPED | {"$schema": SCHEMAS[dialect]}
    for agent in ("", OXP_AGENT, "python-httpx/0.28"):
        answer = await demo.post(dialect, "/tools/call", body, headers={"user-agent": agent})
        assert "value" not in answer.document
