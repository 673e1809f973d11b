"""Telling the dialects apart where no prefix does: by head, then by the shape of the body. All of it is ours.

No specification says how; the rules follow from what real callers send.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import DIALECTS, SCHEMAS, Caller

pytestmark = pytest.mark.anyio

OTC_URL = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
FLAT = {"tool_id": "Text.Echo", "input": {"value": 1}}
ENVELOPED = {"request": FLAT}
FLAT_HEADER = {"oxp-version": "1.0"}
LC_AGENTS = ("universal-tool-sdk-py/0.0.2", "langchain-tool-sdk-py/1.0")
OXP_AGENT = "Oxp/Python 0.1.1"

# Each thing that may tell, once; `tests/unit/dialects/test_recognise.py` has them all.
CALLS = [
    pytest.param("/call", {}, ENVELOPED, "rfc", id="the path"),
    pytest.param("/tools/call", {}, ENVELOPED | {"$schema": "urn:oxp:1.0"}, "oxp-env", id="the version in the body"),
    pytest.param("/tools/call", FLAT_HEADER, FLAT, "oxp", id="a flat body with its header"),
    pytest.param("/tools/call", {"user-agent": LC_AGENTS[0]}, ENVELOPED, "lc", id="the program"),
    pytest.param("/tools/call", {}, ENVELOPED, "otc", id="nothing"),
]


@pytest.mark.parametrize(("path", "headers", "body", "dialect"), CALLS)
async def test_a_call_is_answered_and_refused_in_the_dialect_it_is_in(
    demo: Caller, path: str, headers: dict[str, str], body: dict[str, Any], dialect: str
) -> None:
    assert (await demo.post(dialect, path, body, headers=headers)).value == 1
    request = {"tool_id": "No.Tool"}
    wrong = body | ({"request": request} if "request" in body else request)
    assert (await demo.post(dialect, path, wrong, headers=headers)).status == 400


@pytest.mark.parametrize("body", [ENVELOPED | FLAT, {}], ids=["both members", "neither member"])
@pytest.mark.parametrize("path", ["/tools/call", "/call"])
async def test_a_body_in_no_dialect_or_in_two_is_refused(demo: Caller, path: str, body: Any) -> None:
    assert (await demo.post("bare", path, body)).status == 400
    assert (await demo.post("oxp", path, body, headers=FLAT_HEADER)).status == 400


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
