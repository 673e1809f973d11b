"""Telling the dialects apart where no prefix does, which is ours; and their versions, each of which is repeated.

By head, then by the shape of the body: no specification says how, the rules follow from what real callers send.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.caller import SCHEMAS, Caller, call_body

pytestmark = pytest.mark.anyio

FLAT = {"tool_id": "Text.Echo", "input": {"value": 1}}
ENVELOPED = {"request": FLAT}
FLAT_HEADER = {"oxp-version": "1.0"}
LC_AGENT = "universal-tool-sdk-py/0.0.2"

# Each thing that may tell, once; `tests/unit/protocols/otc/test_surface.py` has them all.
CALLS = [
    pytest.param("/call", {}, ENVELOPED, "rfc", id="the path"),
    pytest.param("/tools/call", {}, ENVELOPED | {"$schema": "urn:oxp:1.0"}, "oxp-env", id="the version in the body"),
    pytest.param("/tools/call", FLAT_HEADER, FLAT, "oxp", id="a flat body with its header"),
    pytest.param("/tools/call", {"user-agent": LC_AGENT}, ENVELOPED, "lc", id="the program"),
    pytest.param("/tools/call", {}, ENVELOPED, "otc", id="nothing"),
]


@pytest.mark.parametrize(("path", "headers", "body", "dialect"), CALLS)
async def test_answers_and_refusals_are_in_the_dialect_of_the_call(
    demo: Caller, path: str, headers: dict[str, str], body: dict[str, Any], dialect: str
) -> None:
    assert (await demo.post(dialect, path, body, headers=headers)).value == 1
    request = {"tool_id": "No.Tool"}
    wrong = body | ({"request": request} if "request" in body else request)
    assert (await demo.post(dialect, path, wrong, headers=headers)).status == 400


OTC_URL = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
DRAFT_URL = "https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json"
VERSIONS = [
    ("rfc", SCHEMAS["rfc"]),
    ("otc", "otc://1.0"),
    ("otc", OTC_URL),
    ("otc", DRAFT_URL),
    ("oxp-env", "urn:oxp:1.0"),
    ("oxp-env", OTC_URL),
]
HEADER_MISSES = ["", "2.0", "1.0, 1.0"]


@pytest.mark.parametrize(("dialect", "schema"), VERSIONS)
async def test_every_version_is_accepted_and_repeated(demo: Caller, dialect: str, schema: str) -> None:
    """Spec: RFC, OTC 1.0 and OXP 1.0, Versioning. Ours: it comes back as it was written, refusals included."""
    path = f"/{dialect}/tools/call"
    answer = await demo.post(dialect, path, call_body(dialect, FLAT, schema))
    assert (answer.value, answer.document["$schema"]) == (1, schema)
    for wrong, status in (({"tool_id": "No.Tool"}, 400), ({"tool_id": "Text.Echo"}, 422)):
        answer = await demo.post(dialect, path, call_body(dialect, wrong, schema))
        assert (answer.status, answer.document["$schema"]) == (status, schema)


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1"])
async def test_every_version_in_the_header_is_accepted_and_repeated(demo: Caller, version: str) -> None:
    """Spec: OXP 1.0, Versioning: the header is on every answer, on 400 and 422 too."""
    for request, status in ((FLAT, 200), ({"tool_id": "No.Tool"}, 400), ({"tool_id": "Text.Echo"}, 422)):
        answer = await demo.post("oxp", "/tools/call", request, headers={"oxp-version": version})
        assert (answer.status, answer.headers["oxp-version"]) == (status, version)
    assert (await demo.list("oxp", "/tools", headers={"oxp-version": version})).headers["oxp-version"] == version


@pytest.mark.parametrize("version", HEADER_MISSES)
async def test_an_unsupported_header_is_refused_with_the_header_we_speak(demo: Caller, version: str) -> None:
    """Spec: OXP 1.0, Server Errors: 400, with `OXP-Version`. Ours: a near miss is a miss."""
    for path in ("/tools/call", "/oxp/tools/call", "/call"):
        answer = await demo.post("oxp", path, FLAT, headers=[("oxp-version", version)])
        assert (answer.status, answer.headers["oxp-version"]) == (400, "1.0")
        assert "OXP-Version" in answer.message
    answer = await demo.list("oxp", "/tools", headers=[("oxp-version", version)])
    assert (answer.status, answer.headers["oxp-version"]) == (400, "1.0")
