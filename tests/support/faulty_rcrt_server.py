"""The RCRT demonstration server with faults on order: `python -m tests.support.faulty_rcrt_server [--ping-s S]`.

Faults are ordered for `create`, `list`, `stream`, `token`, `auth`, or a tool by its name. Each is a behaviour seen on
real servers, runners and brokers, or one that their guarantees allow. There are two further
tools: one whose name is no tool id, and `workflow`, whose calls a gateway treats apart.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo.rcrt_runner import WORKSPACE, BreadcrumbStore, Runner, StockTool, ToolRequest, event, stock_tools
from gateway.demo.rcrt_server import RcrtServer, plain_refusal
from gateway.demo.service import Options, Site, create_app, main
from gateway.demo.toolbox import NotRunError
from tests.support.faults import Fault, Faults, hang_up

Json = Any
Crumb = dict[str, Any]

UNSIGNALLED_CHARACTERS = 1_200_000  # stored, but too large for an event
SILENCE_S = 3600.0

# What becomes of the output of a tool that has run.
OUTPUTS: Mapping[str, Json] = {
    "big_output": {"text": "x" * UNSIGNALLED_CHARACTERS},
}
CONNECTING = {"deaf", "silent"}  # what happens to a stream from its start
ENDING = {"clean_end", "abrupt_end"}  # to all streams, instead of the next event


def without(document: Crumb, *names: str) -> Crumb:
    return {name: value for name, value in document.items() if name not in names}


UNREADABLE = "Error: Failed to parse tool output: Unexpected end of JSON input"  # the tool has run
# What else becomes of the context of a response.
CONTEXTS: Mapping[str, Callable[[Crumb], Json]] = {
    "unparsable_output": lambda context: {**without(context, "output"), "status": "error", "error": UNREADABLE},
    "no_request_id": lambda context: without(context, "request_id"),
    "other_request_id": lambda context: context | {"request_id": f"{context['request_id']}-other"},
}

# What becomes of the event about the response, which is stored in any case.
EVENTS: Mapping[str, Callable[[Crumb], list[Crumb]]] = {
    "drop_event": lambda _: [],
    "duplicate_event": lambda sent: [sent, sent],
    "partial_event": lambda sent: [without(sent, "context", "tags", "schema_name") | {"context_merged": True}],
    "event_without_context": lambda sent: [without(sent, "context")],
    "event_without_type": lambda sent: [without(sent, "type")],
    "created_event": lambda sent: [sent | {"type": "breadcrumb.created"}],
    "malformed_events": lambda sent: [
        {"owner_id": sent["owner_id"]},
        sent | {"tags": None, "context": []},
        sent | {"breadcrumb_id": 7, "schema_name": 7},
        sent,
    ],
}


class FaultyRunner(Runner):
    """A fault is taken when its request is heard of, and is then known by the id of that request."""

    def __init__(self, store: BreadcrumbStore, faults: Faults) -> None:
        self._faults = faults
        self._taken: dict[str, Fault] = {}
        super().__init__(store, [*stock_tools(), *more_tools()])

    def hear(self, event: Crumb) -> None:
        """Also files the requests that stand in an agent's response, as the letter of the standard has it."""
        context = event.get("context")
        if event.get("schema_name") == "agent.response.v1" and isinstance(context, dict):
            for item in context["tool_requests"]:
                draft = {"schema_name": "tool.request.v1", "title": "t", "tags": ["tool:request", WORKSPACE]}
                self.store.create(draft | {"context": item})
        super().hear(event)

    def accept(self, request: ToolRequest) -> None:
        fault = self._faults.take(request.tool)
        if fault is not None:
            self._taken[request.request_id] = fault
        if fault is None or fault.fault != "absent":
            super().accept(request)

    async def run(self, request: ToolRequest) -> Json:
        output = await super().run(request)
        fault = self._taken.get(request.request_id)
        if fault is not None and fault.fault == "late":
            await asyncio.sleep(fault.seconds)
        return output

    def respond(self, draft: Crumb, request: ToolRequest) -> None:
        fault = self._taken.pop(request.request_id, None)
        name = "" if fault is None else fault.fault
        if name in OUTPUTS:
            draft = draft | {"context": draft["context"] | {"output": OUTPUTS[name]}}
        if name in CONTEXTS:
            draft = draft | {"context": CONTEXTS[name](draft["context"])}
        if name in ("untagged", "other_request_id"):
            draft = draft | {"tags": [tag for tag in draft["tags"] if not tag.startswith("request:")]}
        for _ in range(2 if name == "duplicate_response" else 1):
            crumb = self.store.create(draft, announce=False)
            for sent in EVENTS[name](event(crumb)) if name in EVENTS else [event(crumb)]:
                self.store.announce(sent)


async def wait_a_moment(_given: Crumb) -> Json:
    await asyncio.sleep(0.2)
    return {"results": {}}


async def transform(given: Crumb) -> Json:
    return {"result": given}


def more_tools() -> list[StockTool]:
    return [
        StockTool("json-transform", "Transforms JSON.", {}, transform),
        StockTool("workflow", "Runs tools in steps.", {}, wait_a_moment),
    ]


class FaultyRcrtServer(RcrtServer):
    """Spoils answers and streams."""

    def __init__(self, site: Site, store: BreadcrumbStore, faults: Faults, ping_s: float) -> None:
        super().__init__(site, store)
        self.faults = faults
        self.ping_s = ping_s

    def routes(self) -> list[Route]:
        approve = Route("/breadcrumbs/{id}/approve", self.approve, methods=["POST"])
        return [*super().routes(), approve, self.faults.route()]

    async def approve(self, request: Request) -> Response:
        """Approves a tool; its event says no more than that."""
        crumb = self.known(request)
        crumb["tags"] = [*crumb["tags"], "approved"]
        crumb["version"] += 1
        sent = {"type": "breadcrumb.updated", "breadcrumb_id": crumb["id"], "owner_id": crumb["owner_id"]}
        self.store.announce(sent | {"action": "approved"})
        return JSONResponse({"ok": True})

    def identify(self, request: Request) -> str:
        if self.faults.take("auth"):
            raise NotRunError("invalid token: InvalidSignature", status=401)
        return super().identify(request)

    async def token(self, request: Request) -> Response:
        response = await super().token(request)
        if self.faults.take("token", {"expired"}):
            token, grant = self.tokens.popitem()
            self.tokens[token] = replace(grant, ends_at=0.0)
        return response

    async def create(self, request: Request) -> Response:
        fault = self.faults.take("create")
        match "" if fault is None else fault.fault:
            case "status_401":  # before the key is looked at, as whatever is wrong with a token
                raise NotRunError("invalid token: InvalidSignature", status=401)
            case "status_422":
                raise NotRunError("Failed to deserialize the JSON body into the target type", status=422)
            case "status_500" | "status_503" as name:
                self.use_key(request)
                raise NotRunError("error returned from database", status=int(name.removeprefix("status_")))
            case "reset":
                self.use_key(request)
                return await hang_up(request)
            case "status_500_stored":
                await super().create(request)
                raise NotRunError("error communicating with database", status=500)
            case "reset_stored":
                await super().create(request)
                return await hang_up(request)
            case "no_id":
                await super().create(request)
                return JSONResponse({})
            case "slow" | "response_first" if fault is not None:
                response = await super().create(request)
                await asyncio.sleep(fault.seconds)
                return response
        return await super().create(request)

    async def list(self, request: Request) -> Response:
        fault = self.faults.take("list")
        match "" if fault is None else fault.fault:
            case "status_500" | "status_503" as name:
                raise NotRunError("error communicating with database", status=int(name.removeprefix("status_")))
            case "invalid_json":
                return Response('[{"id":', media_type="application/json")
            case "empty":
                return JSONResponse([])
        return await super().list(request)

    async def stream(self, request: Request) -> Response:
        if self.faults.take("stream", {"status_503"}):  # as a server without its broker
            raise NotRunError("NATS not connected", status=503)
        return await super().stream(request)

    async def chunks(self, request: Request, unread: asyncio.Queue[bytes | None]) -> AsyncGenerator[bytes, None]:
        fault = self.faults.take("stream", CONNECTING)
        name = "" if fault is None else fault.fault
        if name in ("deaf", "silent"):
            self.streams.pop(unread)
        if name == "silent":
            yield b"\n"
            await asyncio.sleep(SILENCE_S)
        async for line in super().chunks(request, unread):
            if line == b"data: abrupt\n\n":
                await hang_up(request)
            else:
                yield line

    def publish(self, event: Crumb) -> None:
        end = self.faults.take("stream", ENDING) if self.streams else None
        if end is None:
            return super().publish(event)
        for unread in self.streams:
            unread.put_nowait(None if end.fault == "clean_end" else b"abrupt")
        return None


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ping-s", type=float, default=5.0)
    parser.add_argument("--as-shipped", action="store_true", help="no tool but those of the demonstration is approved")


def build(site: Site, options: Options) -> Starlette:
    store, faults = BreadcrumbStore(), Faults()
    server = FaultyRcrtServer(site, store, faults, options.ping_s)
    runner = FaultyRunner(store, faults)
    if options.as_shipped:
        for crumb in store.crumbs.values():
            if crumb["context"]["name"] in ("json-transform", "workflow"):
                crumb["tags"].remove("approved")
    app = create_app(server.routes(), runner.executions)
    app.add_exception_handler(NotRunError, plain_refusal)
    return app


if __name__ == "__main__":
    main(build, "An RCRT tool server with faults on order.", default_port=0, extend=extend)
