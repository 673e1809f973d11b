"""Negotiating the version: an answer repeats the version that its caller wrote."""

from __future__ import annotations

import pytest

from tests.flow.caller import ENVELOPED, SCHEMAS, Caller, call_body, every_dialect

pytestmark = pytest.mark.anyio

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
ECHO = {"tool_id": "Text.Echo", "input": {"value": 1}}


@pytest.mark.parametrize(("dialect", "schema"), VERSIONS)
async def test_every_version_is_accepted_and_repeated(demo: Caller, dialect: str, schema: str) -> None:
    """Spec: RFC, OTC 1.0 and OXP 1.0, Versioning. Ours: it comes back as it was written, refusals included."""
    path = f"/{dialect}/tools/call"
    answer = await demo.post(dialect, path, call_body(dialect, ECHO, schema))
    assert (answer.value, answer.document["$schema"]) == (1, schema)
    for wrong, status in (({"tool_id": "No.Tool"}, 400), ({"tool_id": "Text.Echo"}, 422)):
        answer = await demo.post(dialect, path, call_body(dialect, wrong, schema))
        assert (answer.status, answer.document["$schema"]) == (status, schema)


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1"])
async def test_every_version_in_the_header_is_accepted_and_repeated(demo: Caller, version: str) -> None:
    """Spec: OXP 1.0, Versioning: the header is on every answer, on 400 and 422 too."""
    for request, status in ((ECHO, 200), ({"tool_id": "No.Tool"}, 400), ({"tool_id": "Text.Echo"}, 422)):
        answer = await demo.post("oxp", "/tools/call", request, headers={"oxp-version": version})
        assert (answer.status, answer.headers["oxp-version"]) == (status, version)
    assert (await demo.list("oxp", "/tools", headers={"oxp-version": version})).headers["oxp-version"] == version


@pytest.mark.parametrize("version", HEADER_MISSES)
async def test_an_unsupported_header_is_refused_with_the_header_we_speak(demo: Caller, version: str) -> None:
    """Spec: OXP 1.0, Server Errors: 400, with `OXP-Version`. Ours: a near miss is a miss."""
    for path in ("/tools/call", "/oxp/tools/call", "/call"):
        answer = await demo.post("oxp", path, ECHO, headers=[("oxp-version", version)])
        assert (answer.status, answer.headers["oxp-version"]) == (400, "1.0")
        assert "OXP-Version" in answer.message
    answer = await demo.list("oxp", "/tools", headers=[("oxp-version", version)])
    assert (answer.status, answer.headers["oxp-version"]) == (400, "1.0")


async def test_a_repeated_version_header_is_refused(demo: Caller) -> None:
    """Ours: two readers could each take the other one."""
    headers = [("oxp-version", "1.0"), ("oxp-version", "1.0")]
    assert (await demo.post("oxp", "/tools/call", ECHO, headers=headers)).status == 400
    assert (await demo.list("oxp", "/tools", headers=headers)).status == 400


@every_dialect
async def test_a_call_without_a_version_is_served_as_the_latest(demo: Caller, dialect: str) -> None:
    """Spec: OTC 1.0 and OXP 1.0, Versioning."""
    answer = await demo.post(dialect, f"/{dialect}/tools/call", call_body(dialect, ECHO))
    assert answer.value == 1
    if dialect in ENVELOPED and dialect != "lc":
        assert answer.document["$schema"] == SCHEMAS[dialect]


@pytest.mark.parametrize("dialect", ["rfc", "otc", "oxp-env"])
async def test_an_enveloped_call_with_a_bad_version_header_is_refused_in_its_own_form(
    demo: Caller, dialect: str
) -> None:
    """Ours: both carriers are read; the shape alone decides the form."""
    body = call_body(dialect, ECHO, SCHEMAS[dialect])
    path = "/call" if dialect == "rfc" else "/tools/call"
    answer = await demo.post(dialect, path, body, headers={"oxp-version": "7"})
    assert (answer.status, answer.document["$schema"]) == (400, SCHEMAS[dialect])
