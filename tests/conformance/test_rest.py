"""The checks of OTC and OXP: a good server passes them all, and each fails for its own fault and nothing unrelated.

The good server is the gateway itself in front of the demonstration servers, so that its own surface is held to them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx
import pytest

from gateway.conformance.checks import Report, Status
from gateway.conformance.http import Client
from gateway.conformance.rest import FORMS, RestServer, ToolCall, checks_for
from gateway.conformance.running import run
from gateway.demo.fleet import start_fleet
from tests import plainhttp
from tests.conformance.spoiling import (
    Forward,
    Spoil,
    Spoiled,
    asked,
    body,
    content,
    document,
    header,
    is_call,
    is_health,
    is_list,
    remade,
    sends,
    status,
)
from tests.flow.gateways import PUBLIC_URL, config, running
from tests.support.processes import GatewayProcess, demo_server, gateway, settings, until
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio

CALLS = (
    ToolCall("Calculator.Add", {"a": 1, "b": 2}),
    ToolCall("Calculator.Add", {"a": 1, "b": 3}),
    ToolCall("Mail.Search", {"query": "invoice"}, {"user_id": "ada"}),
    ToolCall("Sms.Send", {"to": "+4712345678", "text": "hello"}),
    ToolCall("Notes.Create", {"text": "hello"}),
)
CRUMBS = {
    "owner_id": "00000000-0000-0000-0000-000000000001",
    "agent_id": "00000000-0000-0000-0000-00000000d003",
    "toolkit": "Crumbs",
}
NOWHERE = "KitNowhere.NoSuchTool"
TURNS = 200
Good = Callable[[], httpx.AsyncBaseTransport]


@pytest.fixture(scope="module")
async def good(anyio_backend: object) -> AsyncIterator[Good]:
    """The way to the good server."""
    async with demo_server("otc") as otc, demo_server("oxp") as oxp:
        backends = {"office": {"protocol": "otc", "url": otc.url}, "postbox": {"protocol": "oxp", "url": oxp.url}}
        async with running(config(backends, auth={"jwt": [{"secret": SECRET}]})) as it:
            yield lambda: httpx.ASGITransport(it.gateway.public)


async def judged(good: Good, dialect: str, spoil: Spoil | None = None, calls: tuple[ToolCall, ...] = CALLS) -> Report:
    """All checks of a dialect, against a server with one fault or none."""
    async with _client(good, dialect, spoil) as client:
        server = RestServer(client, FORMS[dialect], calls, has_credential=True)
        return await run(dialect, "the gateway", checks_for(FORMS[dialect]), server)


@asynccontextmanager
async def _client(good: Good, dialect: str, spoil: Spoil | None) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token('ada')}"}
    client = Client(f"{PUBLIC_URL}/{dialect}", headers, Spoiled(good(), spoil))
    try:
        yield client
    finally:
        await client.aclose()


@pytest.mark.parametrize("dialect", FORMS)
async def test_the_gateway_passes_in_every_dialect(good: Good, dialect: str) -> None:
    report = await judged(good, dialect)
    assert [(it.check.id, it.reason) for it in report.of(Status.FAILED)] == []
    assert [(it.check.id, it.reason) for it in report.of(Status.SKIPPED)] == []


KINDS = {
    "callback": ToolCall("Builds.lint", {"source": "print(1)"}),
    "rcrt": ToolCall("Crumbs.random", {"min": 1, "max": 6}),
    "mcp": ToolCall("Studio.swatch", {"colour": "3366cc"}),
    "openapi": ToolCall("Weather.readStation", {"station": "bergen"}),
}


@pytest.fixture(scope="module")
async def fleet(anyio_backend: object) -> AsyncIterator[Good]:
    """The way to a gateway in front of every other kind of tool server."""
    async with start_fleet() as urls:
        document = f"{urls['openapi']}/openapi.json"
        backends = {
            "builds": {"protocol": "callback", "url": urls["rap"]},
            "crumbs": {"protocol": "rcrt", "url": urls["rcrt"], **CRUMBS},
            "studio": {"protocol": "mcp", "url": f"{urls['mcp']}/mcp", "toolkit": "Studio"},
            "weather": {"protocol": "openapi", "url": urls["openapi"], "document": document, "toolkit": "Weather"},
        }
        config = settings(backends, auth={"jwt": [{"secret": SECRET}]})
        async with gateway(config) as process:
            await until(lambda: _takes_calls(process), "all tool servers are listed, and the stream of events is open")
            yield lambda: _At(process.url)


async def _takes_calls(process: GatewayProcess) -> bool:
    """Whether calls of all backends are taken: a gateway is ready, too, when one did not answer at first."""
    async with plainhttp.async_client() as http:
        found = (await http.get(f"{process.admin_url}/health")).json()["backends"]
    return all(each["up"] for each in found.values()) and found["crumbs"]["stream_up"] is True


class _At(httpx.AsyncHTTPTransport):
    """Leads requests to a running gateway: callbacks need one that tool servers reach."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = httpx.URL(url)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host=self._url.host, port=self._url.port)
        return await super().handle_async_request(request)


@pytest.mark.parametrize("dialect", FORMS)
async def test_the_gateway_passes_in_front_of_every_kind_of_tool_server(fleet: Good, dialect: str) -> None:
    for kind, call in KINDS.items():
        report = await judged(fleet, dialect, None, (call,))
        failed = [(kind, it.check.id, it.exchange and it.exchange.came) for it in report.of(Status.FAILED)]
        assert failed == []


async def test_without_a_call_no_tool_runs(good: Good) -> None:
    ran = []

    async def watch(request: httpx.Request, forward: Forward) -> httpx.Response:
        answer = await forward(request)
        if is_call(request) and answer.status_code == 200:
            ran.append(request.content)
        return answer

    report = await judged(good, "oxp", watch, ())
    assert ran == []
    assert report.of(Status.FAILED) == []
    assert {it.check.id for it in report.of(Status.SKIPPED)} >= {"OXP-020", "OXP-028"}


# The faults.


def _tools(edit: Callable[[list[Any]], Any]) -> Spoil:
    """Edits the tools in a list."""

    def change(found: Any) -> Any:
        edit(found.get("tools") or found["items"])
        return found

    return body(is_list, change)


def _first(**members: Any) -> Spoil:
    """Changes members of the first tool; one that becomes None goes."""

    def change(tools: list[Any]) -> None:
        tools[0] = {name: value for name, value in (tools[0] | members).items() if value is not None}

    return _tools(change)


def _result(edit: Callable[[Any], Any]) -> Spoil:
    """Edits results; `result` holds them in OTC."""

    def change(found: Any) -> Any:
        edit(found["result"])
        return found

    return body(is_call, change)


def _without(name: str, fits: Callable[[httpx.Request], bool], only: int = 200) -> Spoil:
    return body(fits, lambda found: {each: value for each, value in found.items() if each != name}, only)


def _numbered() -> Spoil:
    numbers = count()
    return _result(lambda result: result.update(duration=next(numbers)))


def _made_ids() -> Spoil:
    async def spoil(request: httpx.Request, forward: Forward) -> httpx.Response:
        answer = await forward(request)
        if not is_call(request) or "call_id" in asked(request) or answer.status_code != 200:
            return answer
        found = answer.json()
        found["result"]["call_id"] = "always-the-same"
        return remade(answer, content=json.dumps(found).encode())

    return spoil


def _mixed_up() -> Spoil:
    """Keeps the id of a call in what all calls share."""
    last = ""

    async def spoil(request: httpx.Request, forward: Forward) -> httpx.Response:
        nonlocal last
        if not is_call(request) or "call_id" not in asked(request):
            return await forward(request)
        last = asked(request)["call_id"]
        answer = await forward(request)
        if answer.status_code != 200:
            return answer
        for _ in range(TURNS):  # of the loop, so that calls made at once have come this far
            await asyncio.sleep(0)
        found = answer.json()
        found["result"]["call_id"] = last
        return remade(answer, content=json.dumps(found).encode())

    return spoil


def _conflict() -> Spoil:
    async def spoil(request: httpx.Request, forward: Forward) -> httpx.Response:
        answer = await forward(request)
        is_conflict = answer.status_code == 400 and answer.json().get("code") == "call_conflict"
        return remade(answer, status=200) if is_conflict else answer

    return spoil


def _missing(kind: str, becomes: Any) -> Spoil:
    def change(found: Any) -> Any:
        missing = found.get("missing_requirements")
        if missing and kind in missing:
            missing[kind] = becomes
        return found

    return body(is_call, change, 400)


def _is_nowhere(request: httpx.Request) -> bool:
    return NOWHERE.encode() in request.content


def _unknown(request: httpx.Request) -> bool:
    return "authorization" not in request.headers and not is_health(request)


def _bare(request: httpx.Request) -> bool:
    found = document(request)
    return is_call(request) and "request" in found and "$schema" not in found


def _has(text: bytes) -> Callable[[httpx.Request], bool]:
    return lambda request: text in request.content


async def _twice_the_first(request: httpx.Request, forward: Forward) -> httpx.Response:
    return await _tools(lambda tools: tools.append(tools[0]))(request, forward)


# By the number of the check: what spoils its server, and the numbers of all checks that see it.
FAULTS: dict[int, tuple[Spoil, set[int]]] = {
    1: (status(is_health, 500), {1, 2, 45}),
    2: (status(lambda request: is_health(request) and "authorization" not in request.headers, 401), {2}),
    3: (content(is_health, b""), {3}),
    5: (body(is_list, lambda found: {"$schema": found["$schema"], "list": found["tools"]}), {5}),
    6: (_twice_the_first, {6}),
    7: (_first(version="1.0"), {7}),
    8: (_first(name="A.B"), {8}),
    9: (_first(description=None), {9}),
    10: (_first(input_schema={"parameters": {"type": "array"}}), {10}),
    11: (_first(requirements="none"), {11}),
    12: (_without("$schema", is_list), {12}),
    13: (status(lambda request: is_list(request) and request.content == b"{}", 400), {13}),
    14: (status(lambda request: bool(request.url.query), 400), {14}),
    20: (_result(lambda result: result.update(success="yes")), {20, 21}),
    21: (_result(lambda result: result.pop("value")), {21, 26}),
    22: (_result(lambda result: result.update(call_id=result["call_id"].upper())), {22, 27}),
    23: (_made_ids(), {23}),
    24: (_result(lambda result: result.update(duration="1 ms")), {24}),
    25: (_without("$schema", is_call), {25}),
    26: (_result(lambda result: result.update(value="three")), {26}),
    27: (_mixed_up(), {27}),
    28: (_numbered(), {28}),
    29: (_conflict(), {29}),
    30: (status(lambda request: sends(tool_id=NOWHERE, input={})(request) and not _unknown(request), 404), {30}),
    31: (status(_has(b"@99999.0.0"), 200), {31}),
    32: (status(_has(b'@0"'), 200), {32}),
    33: (status(_has(b'@v1"'), 404), {33}),
    40: (status(sends(tool_id="Calculator.Add@1.0.0", input={}), 400), {40}),
    41: (status(_has(b'{"kit": []}'), 400), {41}),
    42: (_without("parameter_errors", is_call, 422), {42}),
    43: (status(lambda request: request.content == b"null", 500), {43}),
    44: (status(sends(tool_id=1), 422), {44}),
    45: (status(_has(b"[[[[["), 500), {45}),
    46: (status(_has(b"xxxxx"), 500), {46}),
    47: (status(_has(b"kit_member"), 200), {47}),
    50: (status(_has(b'"otc://99.0"'), 200), {50}),
    52: (status(_bare, 400), {52}),
    60: (header(_is_nowhere, "content-type", "text/plain"), {60}),
    61: (content(lambda request: request.content == b"[1]", b"Traceback (most recent call last):"), {61}),
    62: (status(lambda request: request.method == "PUT", 200), {62}),
    63: (status(lambda request: request.url.path.endswith("/kit/nowhere"), 200), {63}),
    70: (status(_unknown, 200), {70}),
    71: (status(lambda request: "kit-wrong" in request.headers.get("authorization", ""), 200), {71}),
    80: (_missing("user_id", False), {80}),
    81: (_missing("authorization", [{"id": "mail"}]), {81}),
    82: (status(sends(tool_id="Sms.Send"), 200), {82}),
}
OF_HEADERS: dict[int, tuple[Spoil, set[int]]] = {
    4: (header(is_health, "oxp-version", None), {4}),
    51: (status(lambda request: request.headers.get("oxp-version") == "99", 200), {51}),
}


def _numbers(report: Report) -> set[int]:
    return {int(it.check.id.rpartition("-")[2]) for it in report.of(Status.FAILED)}


@pytest.mark.parametrize("number", FAULTS)
async def test_each_check_fails_for_its_own_fault_and_no_unrelated_one_does(good: Good, number: int) -> None:
    spoil, seen = FAULTS[number]
    assert number in seen
    assert _numbers(await judged(good, "otc", spoil)) == seen


@pytest.mark.parametrize("number", OF_HEADERS)
async def test_the_same_for_checks_of_the_version_header(good: Good, number: int) -> None:
    spoil, seen = OF_HEADERS[number]
    assert _numbers(await judged(good, "oxp", spoil)) == seen


def test_every_check_has_a_fault() -> None:
    checks = {int(each.id.rpartition("-")[2]) for form in FORMS.values() for each in checks_for(form)}
    assert checks == FAULTS.keys() | OF_HEADERS.keys()
