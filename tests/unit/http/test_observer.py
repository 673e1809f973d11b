"""What is counted and written down of a request, however far it came."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from gateway.dialects import recognise
from gateway.dialects.recognise import REST
from gateway.errors import UnauthenticatedError
from gateway.http.accesslog import AccessLog
from gateway.http.observer import LEFT, Observer
from gateway.logs.lines import Lines
from gateway.request import Request
from gateway.tracing import identify, random_digits
from gateway.wire import Head
from tests.support.scraping import Samples, made, scraped
from tests.unit.published import published

pytestmark = pytest.mark.anyio


class Noted:
    """An observer, and what came of it."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._lines = Lines(self._writing, lambda count: b"")
        self.metrics = made()
        self.observer = Observer(self.metrics, AccessLog(self._lines))

    def lines(self) -> list[dict[str, Any]]:
        self._lines.close()
        os.close(self._writing)
        with os.fdopen(self._reading) as stream:
            return [json.loads(line) for line in stream]

    async def samples(self) -> Samples:
        return await scraped(self.metrics)


def asked(path: str = "/tools/call", prefix: str | None = None) -> Request:
    head = Head(method="POST", path=path, headers={b"x-request-id": b"request-1"}, dialect=prefix)
    return Request(head, REST, trace=identify(head.headers, random_digits()))


async def test_a_call_that_ran_is_noted_with_its_tool() -> None:
    noted, request = Noted(), asked()
    request.encoder = recognise.OTC
    request.principal, request.outcome, request.tool_s = "key:nightly-job", "tool_error", 0.25
    request.tool = published("Mail.Send@1.0.0", backend_name="mail")
    noted.observer.answered(request, "call", "/tools/call", 200, 0.5, 400)
    (line,) = noted.lines()
    told = {key: line[key] for key in ("request_id", "principal", "tool", "version", "backend", "outcome", "tool_ms")}
    assert told == {
        "request_id": "request-1",
        "principal": "key:nightly-job",
        "tool": "Mail.Send",
        "version": "1.0.0",
        "backend": "mail",
        "outcome": "tool_error",
        "tool_ms": 250.0,
    }
    found = await noted.samples()
    assert found["toolgate_tool_calls_total{backend=mail,outcome=tool_error,protocol=oxp,tool=Mail.Send}"] == 1
    assert found["toolgate_overhead_seconds_sum"] == 0.25


async def test_a_call_that_came_to_no_tool_is_noted_without_one() -> None:
    noted = Noted()
    noted.observer.answered(asked(prefix="oxp"), "call", "/tools/call", 401, 0.001, 50)
    (line,) = noted.lines()
    assert (line["dialect"], line["outcome"], line["status"]) == ("oxp", "refused", 401)
    assert not {"tool", "backend", "principal"} & line.keys()
    found = await noted.samples()
    assert found["toolgate_requests_total{dialect=oxp,operation=call,status=401}"] == 1
    assert not any(name.startswith("toolgate_tool_calls_total") for name in found)


async def test_a_caller_that_left_is_noted_too() -> None:
    noted = Noted()
    noted.observer.answered(asked(), "call", "/tools/call", LEFT, 0.001, 0)
    assert noted.lines()[0]["status"] == 499
    assert (await noted.samples())["toolgate_requests_total{dialect=none,operation=call,status=499}"] == 1


async def test_a_callback_is_noted_by_its_template_and_its_backend() -> None:
    noted = Noted()
    request = asked("/callbacks/secret")
    request.backend, request.bytes_in = "builds", 70
    noted.observer.answered(request, "callback", "/callbacks/{token}", 200, 0.001, 2)
    (line,) = noted.lines()
    assert (line["route"], line["backend"], line["bytes_in"], line["outcome"]) == (
        "/callbacks/{token}",
        "builds",
        70,
        "ok",
    )
    assert "secret" not in json.dumps(line)
    assert (await noted.samples())["toolgate_callbacks_total{backend=builds,outcome=taken}"] == 1


async def test_a_refusal_is_counted_by_its_reason() -> None:
    noted = Noted()
    request = asked()
    request.refused = UnauthenticatedError("no", reason="expired", attempted=True)
    noted.observer.answered(request, "call", "/tools/call", 401, 0.001, 0)
    assert (await noted.samples())["toolgate_auth_failures_total{reason=expired}"] == 1


async def test_probes_are_counted_and_not_written_down() -> None:
    noted = Noted()
    noted.observer.probed("health", 200, 0.001)
    assert noted.lines() == []
    assert (await noted.samples())["toolgate_requests_total{dialect=none,operation=health,status=200}"] == 1
