"""The checks of OTC and OXP: a good server passes them all, and each fails for its own fault and nothing unrelated.

The good server is the gateway itself in front of the demonstration servers, so that its own surface is held to them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx
import jwt
import pytest

from conformance.tests.spoiling import (
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
from gateway.demo.fleet import start_fleet
from tests import plainhttp
from tests.flow.gateways import PUBLIC_URL, config, running
from tests.support.processes import GatewayProcess, demo_server, gateway, settings, until, until_listed
from tests.support.tokens import SECRET, token
from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import Report, Status
from toolgate_conformance.http import Client
from toolgate_conformance.protocols import SERVERS
from toolgate_conformance.running import run
from toolgate_conformance.servers.rest.forms import FORMS
from toolgate_conformance.servers.rest.server import RestServer

pytestmark = pytest.mark.anyio

CALLS = (
    ToolCall("Calculator.Add", {"a": 1, "b": 2}),
    ToolCall("Calculator.Add", {"a": 1, "b": 3}),
    ToolCall("Mail.Search", {"query": "invoice"}, {"user_id": "ada"}),
    ToolCall("Sms.Send", {"to": "+4712345678", "text": "hello"}),
    ToolCall("Notes.Create", {"text": "hello"}),
    ToolCall("Calculator.Divide", {"a": 1, "b": 0}),  # fails
)
CRUMBS = {
    "owner_id": "00000000-0000-0000-0000-000000000001",
    "agent_id": "00000000-0000-0000-0000-00000000d003",
    "toolkit": "Crumbs",
}
LISTED = ("calculator.", "clock.", "doorbell.", "mail.", "notes.create", "notes.list", "sms.", "text.")
NOWHERE = "KitNowhere.NoSuchTool"
TURNS = 200
UNASKED = 74  # is of servers that require no credential
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
        server = RestServer(client, FORMS[dialect], calls)
        return await run(dialect, "the gateway", SERVERS[dialect].checks(), server)


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
    assert _numbers(report, Status.SKIPPED) <= {UNASKED}


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
            await until_listed(process)
            await until(lambda: _hears_events(process), "the stream of events is open")
            yield lambda: _At(process.url)


async def _hears_events(process: GatewayProcess) -> bool:
    async with plainhttp.async_client() as http:
        found = (await http.get(f"{process.admin_url}/health")).json()["backends"]
    return bool(found["crumbs"]["stream_up"])


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


@pytest.mark.parametrize("dialect", ["otc", "oxp"])
async def test_without_a_call_every_listed_tool_that_is_named_gets_invalid_input(good: Good, dialect: str) -> None:
    """So that no tool runs either on a server that overlooks what is wrong, as long as it validates input."""
    sent = []

    async def watch(request: httpx.Request, forward: Forward) -> httpx.Response:
        members = asked(request) if is_call(request) else None
        if isinstance(members, dict) and str(members.get("tool_id")).lower().startswith(LISTED):
            sent.append(members.get("input"))
        return await forward(request)

    await judged(good, dialect, watch, ())
    assert len(sent) > 15
    for given in sent:
        assert not given or {"kit": []} in given.values() or set(given) == {"kit"}, given


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


def _failure(edit: Callable[[Any], Any]) -> Spoil:
    """Edits the errors of results."""
    return _result(lambda result: edit(result["error"]) if "error" in result else None)


def _success(edit: Callable[[Any], Any]) -> Spoil:
    """Edits results of tools that did not fail."""
    return _result(lambda result: edit(result) if "error" not in result else None)


def _without(name: str, fits: Callable[[httpx.Request], bool], only: int = 200) -> Spoil:
    return body(fits, lambda found: {each: value for each, value in found.items() if each != name}, only)


def _numbered() -> Spoil:
    numbers = count()
    return _result(lambda result: result.update(duration=next(numbers)))


def _raced() -> Spoil:
    """Runs a call again that comes a second time while it still runs."""
    running = Counter[str]()

    async def spoil(request: httpx.Request, forward: Forward) -> httpx.Response:
        id_ = asked(request).get("call_id") if is_call(request) and isinstance(asked(request), dict) else None
        if not isinstance(id_, str):
            return await forward(request)
        running[id_] += 1
        others = running[id_]
        answer = await forward(request)
        running[id_] -= 1
        if others == 1 or answer.status_code != 200:
            return answer
        found = answer.json()
        found["result"]["duration"] = others
        return remade(answer, content=json.dumps(found).encode())

    return spoil


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


def _both(*fits: Callable[[httpx.Request], bool]) -> Callable[[httpx.Request], bool]:
    return lambda request: all(each(request) for each in fits)


def _forged(algorithm: str) -> Callable[[httpx.Request], bool]:
    """Requests with a JWT that is not the right one, of an algorithm."""

    def fits(request: httpx.Request) -> bool:
        presented = request.headers.get("authorization", "").removeprefix("Bearer ")
        return (
            "." in presented and not _is_genuine(presented) and jwt.get_unverified_header(presented)["alg"] == algorithm
        )

    return fits


def _is_genuine(presented: str) -> bool:
    try:
        jwt.decode(presented, SECRET, algorithms=["HS256"])
    except jwt.InvalidTokenError:
        return False
    return True


def _lacks_input(request: httpx.Request) -> bool:
    return sends(tool_id="Calculator.Add@1.0.0")(request) and "input" not in asked(request)


async def _twice_the_first(request: httpx.Request, forward: Forward) -> httpx.Response:
    return await _tools(lambda tools: tools.insert(0, tools[0]))(request, forward)


ADD, ADDS = "Calculator.Add", "Calculator.Add@1.0.0"
NO_TYPE = {"type": "nothing"}

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
    12: (_without("$schema", is_list), {12, 53}),
    13: (status(lambda request: is_list(request) and request.content == b"{}", 400), {13}),
    14: (status(lambda request: bool(request.url.query), 400), {14}),
    15: (status(_both(is_list, _has(b"99.0")), 200), {15}),
    16: (_tools(lambda tools: tools.reverse()), {16}),
    17: (_first(output_schema=NO_TYPE), {17}),
    20: (_result(lambda result: result.update(success="yes")), {20, 21}),
    21: (_success(lambda result: result.pop("value")), {21, 26}),
    22: (_result(lambda result: result.update(call_id=result["call_id"].upper())), {22, 27}),
    23: (_made_ids(), {23}),
    24: (_result(lambda result: result.update(duration="1 ms")), {24}),
    25: (_without("$schema", is_call), {25}),
    26: (_success(lambda result: result.update(value="three")), {26}),
    27: (_mixed_up(), {27}),
    28: (_numbered(), {28, 92}),
    29: (_conflict(), {29}),
    30: (status(sends(tool_id=NOWHERE, input={}), 404, 400), {30}),
    31: (status(_has(b"@99999.0.0"), 200), {31}),
    32: (status(_has(b'@0"'), 200), {32}),
    33: (status(_has(b'@v1"'), 404), {33}),
    34: (status(sends(tool_id=ADD, input={}), 400, 422), {34}),
    35: (status(sends(tool_id=f"{ADD}@1"), 400, 422), {35}),
    36: (status(sends(tool_id=ADD.swapcase()), 200), {36}),
    37: (status(sends(tool_id=f"{ADD}@01.0.0"), 400, 422), {37}),
    40: (status(sends(tool_id=ADDS, input={}), 400), {40}),
    41: (status(_has(b'{"kit": []}'), 400), {41}),
    42: (_without("parameter_errors", is_call, 422), {42}),
    43: (status(lambda request: request.content == b"null", 500), {43}),
    44: (status(sends(tool_id=1), 422), {44}),
    45: (status(_has(b"[[[[["), 500), {45}),
    46: (status(_has(b"xxxxx"), 500), {46}),
    47: (status(_has(b"kit_member"), 200), {47}),
    48: (status(_lacks_input, 400), {48}),
    50: (status(_both(is_call, _has(b'"otc://99.0"')), 200), {50}),
    52: (status(_bare, 400), {52}),
    53: (status(_both(is_list, _has(b"/specification/")), 400), {53}),
    54: (status(_has(b'"otc://1.0-kit"'), 200), {54}),
    60: (header(_is_nowhere, "content-type", "text/plain"), {60}),
    61: (content(lambda request: request.content == b"[1]", b"Traceback (most recent call last):"), {61}),
    62: (status(lambda request: request.method == "PUT", 200), {62}),
    63: (status(lambda request: request.url.path.endswith("/kit/nowhere"), 200), {63}),
    70: (status(_unknown, 200), {70}),
    71: (status(lambda request: "kit-wrong" in request.headers.get("authorization", ""), 200), {71}),
    72: (status(_forged("HS256"), 200), {72}),
    73: (status(_forged("none"), 200), {73}),
    80: (_missing("user_id", False), {80}),
    81: (_missing("authorization", [{"id": "mail"}]), {81}),
    82: (status(sends(tool_id="Sms.Send"), 200), {82}),
    85: (status(sends(tool_id="Mail.Search@1.0.0", input={}), 400), {85}),
    90: (_failure(lambda error: error.pop("message")), {90}),
    91: (_failure(lambda error: error.update(can_retry="yes")), {91}),
    92: (_raced(), {92}),
}
IN_FLAT_OXP: dict[int, tuple[Spoil, set[int]]] = {
    4: (header(is_health, "oxp-version", None), {4}),
    51: (status(lambda request: is_call(request) and request.headers.get("oxp-version") == "99", 200), {51}),
    55: (status(lambda request: request.headers.get("oxp-version") == "v1.0", 200), {55}),
    64: (header(_is_nowhere, "oxp-version", None), {64}),
    83: (_missing("authorization", [{"id": "mail", "url": "https://a.test", "name": "mail"}]), {83}),
    84: (status(lambda request: "/challenges/" in request.url.path, 404), {84}),
}
IN_LC: dict[int, tuple[Spoil, set[int]]] = {45: (status(_has(b"[[[[["), 500), {45})}
IN_RFC: dict[int, tuple[Spoil, set[int]]] = {18: (_first(toolkit=None), {18})}
ELSEWHERE = [
    *(("oxp", number) for number in IN_FLAT_OXP),
    *(("rfc", number) for number in IN_RFC),
    *(("lc", number) for number in IN_LC),
]
BY_DIALECT = {"oxp": IN_FLAT_OXP, "rfc": IN_RFC, "lc": IN_LC}


def _numbers(report: Report, of: Status = Status.FAILED) -> set[int]:
    return {int(it.check.id.rpartition("-")[2]) for it in report.of(of)}


@pytest.mark.parametrize("number", FAULTS)
async def test_each_check_fails_for_its_own_fault_and_no_unrelated_one_does(good: Good, number: int) -> None:
    spoil, seen = FAULTS[number]
    assert number in seen
    assert _numbers(await judged(good, "otc", spoil)) == seen


@pytest.mark.parametrize(("dialect", "number"), ELSEWHERE)
async def test_the_same_for_checks_of_other_dialects(good: Good, dialect: str, number: int) -> None:
    spoil, seen = BY_DIALECT[dialect][number]
    assert number in seen
    assert _numbers(await judged(good, dialect, spoil)) == seen


async def test_a_result_that_cannot_be_found_fails_one_check(good: Good) -> None:
    spoil = body(is_call, lambda found: {"outcome": found.get("result")})
    report = await judged(good, "otc", spoil)
    assert _numbers(report) == {20}
    assert _numbers(report, Status.SKIPPED) >= {21, 22, 23, 24, 25, 26, 27, 28, 29, 90, 91, 92}


async def test_a_server_that_requires_no_credential_must_not_read_one() -> None:
    async with demo_server("otc") as demo, running(config({"office": {"protocol": "otc", "url": demo.url}})) as open_:
        spoil = status(lambda request: "kit-unasked" in request.headers.get("authorization", ""), 401)
        for fault, seen in ((None, set[int]()), (spoil, {UNASKED})):
            client = Client(f"{PUBLIC_URL}/otc", {}, Spoiled(httpx.ASGITransport(open_.gateway.public), fault))
            report = await run("otc", "it", SERVERS["otc"].checks(), RestServer(client, FORMS["otc"], CALLS[:2]))
            await client.aclose()
            assert _numbers(report) == seen
            assert UNASKED not in _numbers(report, Status.SKIPPED)


def test_every_check_has_a_fault() -> None:
    checks = {int(each.id.rpartition("-")[2]) for form in FORMS for each in SERVERS[form].checks()}
    assert checks == FAULTS.keys() | IN_FLAT_OXP.keys() | IN_RFC.keys() | {UNASKED}
