"""A demonstration tool server that speaks RAP, calling back with results: `python -m gateway.demo.rap_server`.

Wire form: Reactive Agent Protocol, Toolsets, Tool Invocation, Tool Cancellation and Thread Closure. Work in progress is
lost when the server stops, as RAP allows. A callback URL holds a token, so it is never written down.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import ssl
from collections import OrderedDict
from collections.abc import Collection
from contextlib import aclosing

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo import consent
from gateway.demo.consent import ConsentRecords
from gateway.demo.rap_calls import MAX_ID_CHARACTERS, Message, Messages, Questions, RapInvocation, operations
from gateway.demo.service import Options, Site, create_app, decode, main, read_body
from gateway.demo.toolbox import Json, JsonObject, NotRunError, ToolError

MAX_RUNNING = 1000  # calls at a time, subscriptions and questions to users among them
MAX_IDS = 10_000  # calls whose executions are counted, the latest
MAX_ATTEMPTS = 6  # of one callback; with the waits below about 3 s of a caller that is down
FIRST_WAIT_S = 0.1  # doubles each time
JSON = {"Content-Type": "application/json"}
TIMEOUT = httpx.Timeout(5.0, connect=2.0)  # a callback endpoint only notes what it gets


class RapServer:
    """The endpoints of RAP, and the calls they started. `origins` may be called back besides loopback."""

    def __init__(self, site: Site, origins: Collection[str] = ()) -> None:
        self.site = site
        self.accounts = ConsentRecords(site.base_url)
        self.questions = Questions(site.base_url)
        self.operations = {each.name: each for each in operations(self.accounts, self.questions)}
        self.running: dict[asyncio.Task[None], RapInvocation] = {}
        self._by_operation = dict.fromkeys(self.operations, 0)
        self._by_id: OrderedDict[str, int] = OrderedDict()
        self._origins = {_origin(httpx.URL(origin)) for origin in origins}
        secure = any(scheme == "https" for scheme, *_ in self._origins)
        # Reading the certificates of the public authorities takes longer than importing httpx; loopback needs none.
        verify = secure or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = httpx.AsyncClient(timeout=TIMEOUT, verify=verify, trust_env=False)

    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/rap-toolset", self.toolset),
            Route("/invoke", self.invoke, methods=["POST"]),
            Route("/cancel_tool_call", self.cancel, methods=["POST"]),
            Route("/close_thread", self.close, methods=["POST"]),
            Route("/user_choice_response/{key}", self.choose, methods=["POST"]),
            *consent.routes(self.accounts, title="Demo Deploy", purpose="deploy in the name"),
        ]

    def executions(self) -> Json:
        """How often each operation and each call ran."""
        return {"operations": self._by_operation, "ids": self._by_id}

    async def toolset(self, request: Request) -> Response:
        self.site.admit(request)
        return JSONResponse(
            {
                "name": "Builds",
                "description": "A build pipeline that reports back when it is done.",
                "endpoint": f"{self.site.base_url}/invoke",
                "tools": [operation.definition() for operation in self.operations.values()],
            }
        )

    async def invoke(self, request: Request) -> Response:
        """Acknowledges first and works then; only what could never get a result is refused here."""
        self.site.admit(request)
        call = RapInvocation.read(decode(await read_body(request)))
        self._check(call.callback_url)
        if len(self.running) >= MAX_RUNNING:
            raise NotRunError("Too many calls are running", status=503)
        return await self.acknowledge(request, call)

    async def acknowledge(self, _request: Request, call: RapInvocation) -> Response:
        """The background task runs once the answer is sent (Tool Invocation, Response)."""
        return Response(background=BackgroundTask(self.begin, call))

    async def begin(self, call: RapInvocation) -> asyncio.Task[None]:
        """Starts a call. A repeated id runs again: RAP obliges no tool server to notice, and real ones do not."""
        task = asyncio.create_task(self._perform(call))
        self.running[task] = call
        task.add_done_callback(lambda task: self.running.pop(task, None))
        return task

    async def _perform(self, call: RapInvocation) -> None:
        async with aclosing(self.messages(call)) as messages:
            async for message in messages:
                await self.deliver(call, message)

    async def messages(self, call: RapInvocation) -> Messages:
        """All messages of one call."""
        try:
            if call.problem is not None:
                raise ToolError(f"The invocation is invalid: {call.problem}")
            operation = self.operations.get(call.operation)
            if operation is None:
                raise ToolError(f"There is no such operation; there are {', '.join(self.operations)}")
            arguments = operation.check(call)
            self._count(call)
            async with aclosing(operation.run(call, arguments)) as messages:
                async for message in messages:
                    yield message
        except ToolError as failed:
            yield call.error(str(failed))

    def _count(self, call: RapInvocation) -> None:
        self._by_operation[call.operation] += 1
        self._by_id[call.id] = self._by_id.get(call.id, 0) + 1
        if len(self._by_id) > MAX_IDS:
            self._by_id.popitem(last=False)

    def _check(self, callback_url: str) -> None:
        """The URL is the caller's word. Raises RefusedError (403) unless it leads where this server may post."""
        try:
            url = httpx.URL(callback_url)
        except httpx.InvalidURL:
            raise NotRunError("The callback_url is not a URL", status=403) from None
        allowed = _is_loopback(url.host) or _origin(url) in self._origins
        if url.scheme not in ("http", "https") or url.userinfo or not allowed:
            raise NotRunError("The callback_url is not allowed here", status=403)

    async def deliver(self, call: RapInvocation, message: Message) -> None:
        """Delivers one message of a call."""
        await self.post(call.callback_url, json.dumps(message).encode())

    async def post(self, url: str, content: bytes) -> int | None:
        """Posts, again after a 5xx or without an answer; returns the last status (Transport, Callback Response)."""
        status = None
        for attempt in range(MAX_ATTEMPTS):
            try:
                async with self._client.stream("POST", url, content=content, headers=JSON) as response:
                    status = response.status_code
            except httpx.TransportError:
                status = None
            if status is not None and status < 500:
                break
            await asyncio.sleep(FIRST_WAIT_S * 2**attempt)
        return status

    async def cancel(self, request: Request) -> Response:
        """Ends a call without another message; 200 for unknown calls too (Tool Cancellation)."""
        notice = await self.notice(request)
        for task, call in self.running.items():
            if (call.group_id, call.id) == (notice.get("thread_id"), notice.get("tool_call_id")):
                task.cancel()
        return Response()

    async def close(self, request: Request) -> Response:
        """This server keeps no state of threads, and subscriptions need not end (Thread Closure)."""
        await self.notice(request)
        return Response()

    async def notice(self, request: Request) -> JsonObject:
        """The ids of a notice; one that cannot be read counts as empty, for the answer is always 200."""
        self.site.admit(request)
        try:
            document = decode(await read_body(request))
        except NotRunError:
            document = None
        given = document.items() if isinstance(document, dict) else ()
        return {name: value for name, value in given if isinstance(value, str) and len(value) <= MAX_ID_CHARACTERS}

    async def choose(self, request: Request) -> Response:
        """Takes the answer to a `user_choice`; its address is its key."""
        self.questions.answer(request.path_params["key"], decode(await read_body(request)))
        return Response()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def extend(parser: argparse.ArgumentParser) -> None:
    help_ = "also call back there; may be repeated (default: loopback only)"
    parser.add_argument("--callback-origin", action="append", default=[], metavar="URL", help=help_)


def build(site: Site, options: Options) -> Starlette:
    server = RapServer(site, options.callback_origin)
    return create_app(server.routes(), server.executions)


if __name__ == "__main__":
    description = "A demonstration tool server that speaks RAP and calls back with results."
    main(build, description, default_port=9103, extend=extend)
