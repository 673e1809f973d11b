"""The RAP demonstration server with faults on order: `python -m tests.support.faulty_rap_server`.

Each fault is a real server's behaviour, or one that the Reactive Agent Protocol allows or warns of. `/notices` and
`/deliveries` are what the server received and what it delivered, in order.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo.rap_calls import Message, Messages, RapInvocation
from gateway.demo.rap_server import RapServer, extend
from gateway.demo.service import Options, Site, create_app, main
from tests.support.faults import Fault, Faults, hang_up


class FaultyRapServer(RapServer):
    """A fault is taken when its call is invoked, and is then known by the id of that call."""

    def __init__(self, site: Site, options: Options) -> None:
        super().__init__(site, options.callback_origin)
        self.faults = Faults()
        self._taken: dict[str, Fault] = {}
        self._notices: list[dict[str, Any]] = []
        self._deliveries: list[dict[str, Any]] = []

    def routes(self) -> list[Route]:
        async def notices(_request: Request) -> Response:
            return JSONResponse(self._notices)

        async def deliveries(_request: Request) -> Response:
            return JSONResponse(self._deliveries)

        seen = [Route("/notices", notices), Route("/deliveries", deliveries)]
        return [*super().routes(), *seen, self.faults.route()]

    def _fault(self, call: RapInvocation) -> str:
        return self._taken[call.id].fault if call.id in self._taken else ""

    async def acknowledge(self, request: Request, call: RapInvocation) -> Response:
        if (fault := self.faults.take(call.operation)) is not None:
            self._taken[call.id] = fault
        match self._fault(call):
            case "callback_before_ack":
                await asyncio.wait({await self.begin(call)}, timeout=1.0)
                return Response()
            case "reset_before_ack":  # the work is done all the same
                await self.begin(call)
                return await hang_up(request)
        return await super().acknowledge(request, call)

    async def messages(self, call: RapInvocation) -> Messages:
        match self._fault(call):
            case "delayed":
                await asyncio.sleep(self._taken[call.id].seconds)
            case "result_first":  # whatever it asks the user after that is late
                yield call.result("Decided without asking")
        regular = super().messages(call)
        match self._fault(call):
            case "still_running":  # no subscription at all, only a result that comes in pieces
                yield call.result("Still running; output follows", subscription=True)
                async for message in regular:
                    yield call.event(str(message.get("text", "")), associative=True, final=True)
            case "event_before_confirmation":
                held = [message async for message in regular]
                for message in [*held[1:2], *held[:1], *held[2:]]:
                    yield message
            case _:
                async for message in regular:
                    yield message

    async def deliver(self, call: RapInvocation, message: Message) -> None:
        url, times, cut = call.callback_url, 1, None
        match self._fault(call):
            case "duplicate":
                times = 2
            case "wrong_token":  # another callback URL of the same shape
                folder, _, token = url.rpartition("/")
                url = f"{folder}/{'B' if token.startswith('A') else 'A'}{token[1:]}"
            case "wrong_id":
                message = message | {"id": f"{call.id}-other"}
            case "unknown_type":
                message = message | {"type": "progress"}
            case "neither_text_nor_content":
                message = {name: value for name, value in message.items() if name not in ("text", "content")}
            case "invalid_json":
                cut = -1
        for _ in range(times):
            status = await self.post(url, json.dumps(message).encode()[:cut])
            self._deliveries.append({"type": message["type"], "id": call.id, "status": status})

    async def cancel(self, request: Request) -> Response:
        if any(self._fault(call) == "ignore_cancel" for call in self.running.values()):
            await self.notice(request)  # results and events go on, as if they had crossed it
            return Response()
        return await super().cancel(request)

    async def notice(self, request: Request) -> dict[str, Any]:
        given = await super().notice(request)
        kind = "cancel" if request.url.path == "/cancel_tool_call" else "close"
        self._notices.append({"kind": kind, **given})
        return given


def build(site: Site, options: Options) -> Starlette:
    server = FaultyRapServer(site, options)
    return create_app(server.routes(), server.executions)


if __name__ == "__main__":
    main(build, "A RAP tool server with faults on order.", default_port=0, extend=extend)
