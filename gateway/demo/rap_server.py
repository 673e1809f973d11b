"""A demonstration tool server that speaks RAP, calling back with results: `python -m gateway.demo.rap_server`.

Wire form: Reactive Agent Protocol, Toolsets, Tool Invocation, Tool Cancellation and Thread Closure. Work in progress is
lost when the server stops, as RAP allows. `/notices` and `/deliveries` are ours: what we were told, what we told.
With `RAP_EMBEDDED=1` in its environment it says where it listens as a supervised server does: `{"port": N}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gateway.demo import consent, faults, rap_faults
from gateway.demo.faults import Fault, Faults, admit_control, hang_up, pause
from gateway.demo.rap_callbacks import Courier
from gateway.demo.rap_calls import Invocation, Message, Operations
from gateway.demo.rap_tools import Accounts, Questions, operations
from gateway.demo.service import Options, Site, decode, listening_on, main, read_body
from gateway.demo.toolbox import Json, JsonObject, RefusedError, ToolError

MAX_RUNNING = 1000  # calls at a time, subscriptions and questions to users among them
MAX_IDS = 10_000  # calls whose executions are counted, the latest
MAX_NOTICES = 1000
MAX_ID_CHARACTERS = 256

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, eq=False)
class _Running:
    call: Invocation
    task: asyncio.Task[None]
    ignores_cancel: bool


class RapServer:
    """The endpoints of RAP, and the calls they started."""

    def __init__(self, site: Site, courier: Courier) -> None:
        self._site = site
        self._courier = courier
        self._accounts = Accounts(site.base_url)
        self._questions = Questions(site.base_url)
        self._operations = Operations(operations(self._accounts, self._questions))
        known = dict.fromkeys(self._operations.names, rap_faults.CALL_FAULTS)
        self._faults = Faults({**known, "manifest": rap_faults.KNOWN_MANIFEST})
        self._running: set[_Running] = set()
        self._by_operation = dict.fromkeys(self._operations.names, 0)
        self._by_id: OrderedDict[str, int] = OrderedDict()
        self._notices: deque[JsonObject] = deque(maxlen=MAX_NOTICES)

    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/rap-toolset", _refusing(self.toolset)),
            Route("/invoke", _refusing(self.invoke), methods=["POST"]),
            Route("/cancel_tool_call", _refusing(self.cancel), methods=["POST"]),
            Route("/close_thread", _refusing(self.close), methods=["POST"]),
            Route("/user_choice_response/{key}", _refusing(self.choose), methods=["POST"]),
            Route("/executions", self.executions),
            Route("/notices", self._record(lambda: list(self._notices))),
            Route("/deliveries", self._record(lambda: list(self._courier.records))),
            Route("/health", _health),
            *consent.routes(self._accounts, title="Demo Deploy", purpose="deploy in the name"),
            *faults.routes(self._site, self._faults),
        ]

    async def toolset(self, request: Request) -> Response:
        self._site.admit(request)
        manifest: Json = {
            "name": "Builds",
            "description": "A build pipeline that reports back when it is done.",
            "endpoint": f"{self._site.base_url}/invoke",
            "tools": self._operations.definitions(),
        }
        fault = self._faults.take("manifest", rap_faults.KNOWN_MANIFEST)
        match "" if fault is None else fault.name:
            case "status_404":
                return PlainTextResponse("Not Found", 404)
            case "status_500":
                return PlainTextResponse("Internal Server Error", 500)
            case "invalid_json":
                return Response('{"name": "Builds"', media_type="application/json")
            case "slow" if fault is not None:
                await pause(self._site, fault.seconds)
            case name if name in rap_faults.MANIFESTS:
                manifest = rap_faults.MANIFESTS[name](manifest)
        return JSONResponse(manifest)

    async def invoke(self, request: Request) -> Response:
        """Acknowledges first and works then; only what could never get a result is refused here."""
        self._site.admit(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RefusedError("The invocation must be application/json", status=415)
        call = Invocation.read(decode(await read_body(request)))
        self._courier.check(call.callback_url)
        if len(self._running) >= MAX_RUNNING:
            raise RefusedError("Too many calls are running", status=503)
        fault = self._faults.take(call.operation, rap_faults.CALL_FAULTS)
        return await self._acknowledge(request, call, fault)

    async def _acknowledge(self, request: Request, call: Invocation, fault: Fault | None) -> Response:
        # What is in `background` runs once the answer is sent (Tool Invocation, Response).
        begin = BackgroundTask(self._begin, call, fault)
        if fault is None:
            return Response(background=begin)
        match fault.name:
            case "slow_ack":
                await pause(self._site, fault.seconds)
            case "callback_before_ack":
                await asyncio.wait({await self._begin(call, fault)}, timeout=fault.seconds)
                return Response()
            case "reset_before_ack":
                await self._begin(call, fault)
                return await hang_up(request)
            case "reset_and_drop":
                return await hang_up(request)
            case "ack_ok_body":
                return PlainTextResponse("OK", background=begin)
            case name if name in rap_faults.STATUSES:
                status = rap_faults.STATUSES[name]
                headers = {"Location": f"{self._site.base_url}/health"} if status == 302 else None
                return Response(status_code=status, headers=headers, background=begin if status < 300 else None)
        return Response(background=begin)

    async def _begin(self, call: Invocation, fault: Fault | None) -> asyncio.Task[None]:
        """A repeated id runs again: no page of RAP obliges tools to notice, and real ones do not."""
        task = asyncio.create_task(self._perform(call, fault))
        running = _Running(call, task, fault is not None and fault.name == "ignore_cancel")
        self._running.add(running)
        task.add_done_callback(lambda _: self._running.discard(running))
        return task

    async def _perform(self, call: Invocation, fault: Fault | None) -> None:
        async with (
            aclosing(self._messages(call)) as messages,
            aclosing(rap_faults.deliveries(call, fault, messages)) as deliveries,
        ):
            async for delivery in deliveries:
                await self._courier.deliver(delivery)

    async def _messages(self, call: Invocation) -> AsyncGenerator[Message, None]:
        try:
            operation = self._operations.find(call)
            self._count(call)
            async with aclosing(operation.run(call)) as messages:
                async for message in messages:
                    yield message
        except ToolError as failed:
            yield call.error(str(failed))

    def _count(self, call: Invocation) -> None:
        self._by_operation[call.operation] += 1
        self._by_id[call.id] = self._by_id.get(call.id, 0) + 1
        if len(self._by_id) > MAX_IDS:
            self._by_id.popitem(last=False)

    async def cancel(self, request: Request) -> Response:
        """Stops a call without another word. It is 200 for what we never heard of too (Tool Cancellation)."""
        thread_id, tool_call_id = await self._notice(request, "cancel", "thread_id", "tool_call_id")
        for running in self._running:
            if (running.call.group_id, running.call.id) == (thread_id, tool_call_id) and not running.ignores_cancel:
                running.task.cancel()
        return Response()

    async def close(self, request: Request) -> Response:
        """A closed thread has no state here to let go of; its subscriptions need not end (Thread Closure)."""
        await self._notice(request, "close", "thread_id")
        return Response()

    async def _notice(self, request: Request, kind: str, *names: str) -> list[str]:
        """Reads the ids of a notice; one that cannot be read counts as empty, since the answer is 200 always."""
        self._site.admit(request)
        try:
            document = decode(await read_body(request))
        except RefusedError:
            document = None
        given = [document.get(name) for name in names] if isinstance(document, dict) else []
        ids = [value for value in given if isinstance(value, str) and len(value) <= MAX_ID_CHARACTERS]
        if len(ids) != len(names):
            ids = [""] * len(names)
        self._notices.append({"kind": kind, **dict(zip(names, ids, strict=True))})
        return ids

    async def choose(self, request: Request) -> Response:
        """Takes the answer to a `user_choice`; whoever knows the address may give it."""
        self._questions.answer(request.path_params["key"], decode(await read_body(request)))
        return Response()

    async def executions(self, _request: Request) -> Response:
        return JSONResponse({"operations": self._by_operation, "ids": self._by_id})

    def _record(self, read: Callable[[], list[JsonObject]]) -> Endpoint:
        async def record(request: Request) -> Response:
            admit_control(self._site, request)
            return JSONResponse(read())

        return _refusing(record)


def _refusing(endpoint: Endpoint) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RefusedError as refused:
            return JSONResponse(refused.body, refused.status, headers=refused.headers)

    return answer


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--callback-origin",
        action="append",
        default=[],
        metavar="URL",
        help="also call back there; may be repeated (default: loopback only)",
    )
    parser.epilog = faults.epilog(
        {"any operation": rap_faults.CALL_FAULTS, "manifest (what is discovered)": rap_faults.KNOWN_MANIFEST}
    )


def announce(site: Site) -> str:
    if os.environ.get("RAP_EMBEDDED") != "1":
        return listening_on(site)
    return json.dumps({"port": int(site.base_url.rpartition(":")[2])})


def build(site: Site, options: Options) -> Starlette:
    app = Starlette(routes=RapServer(site, Courier(options.callback_origin)).routes())
    app.router.redirect_slashes = False  # it would build a URL from whatever Host says
    return app


if __name__ == "__main__":
    main(
        build,
        "A demonstration tool server that speaks RAP and calls back with results.",
        default_port=9103,
        extend=extend,
        announce=announce,
    )
