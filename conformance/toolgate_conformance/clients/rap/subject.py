"""Runs the RAP runtime under test against the scripted tool server, once per scenario, and records what it does.

The operator's command reads the toolset, invokes the tool once, prints the text of the result, and exits with 0; or
with another code if there is no result. SIGINT interrupts it, as Ctrl-C does. Its environment is that of clients of
other protocols.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from time import monotonic
from typing import Any, Self

import httpx

from toolgate_conformance.clients.commands import interruptible
from toolgate_conformance.clients.program import ProgramUnderTest, made_up
from toolgate_conformance.clients.rap.observation import CANCEL, CLOSE, INVOKE, Delivery, RapObservation
from toolgate_conformance.clients.rap.scenarios import INPUT, SCENARIOS, TOOL, Post, RapScenario, ReceivedInvocation
from toolgate_conformance.clients.scripted import Reply, Request, ScriptedServer

ANSWER_S = 5.0  # for the answer to a callback
JSON = {"content-type": "application/json"}


class RapRuntime(ProgramUnderTest[RapObservation]):
    """The runtime under test. While the context is open, its commands can be interrupted."""

    async def __aenter__(self) -> Self:
        self._signals = interruptible()
        self._signals.__enter__()
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        try:
            await super().__aexit__()
        finally:
            self._signals.__exit__(None, None, None)

    async def play(self, name: str) -> RapObservation:
        server, script = ScriptedServer(), RapScript(SCENARIOS[name])
        try:
            await server.start(script.answer)
            script.url = server.url + script.scenario.path
            words = {
                "url": script.url,
                "token": made_up("kit-token"),
                "tool": TOOL,
                "input": json.dumps(INPUT),
                "scenario": name,
                "call_id": str(uuid.uuid4()),
            }
            code, stdout, stderr = await self.start(words, interruption=script.interruption)
            ended_s = monotonic()
            deliveries = await script.finish()
            return RapObservation(
                exit_code=code,
                stdout=stdout,
                stderr=stderr,
                requests=tuple(server.requests),
                replies=tuple(server.replies),
                scenario=script.scenario,
                deliveries=deliveries,
                ended_s=ended_s,
            )
        finally:
            await server.aclose()


class RapScript:
    """Plays a scenario: answers requests, and posts callbacks.

    `url` is the URL that the runtime is given; `interruption` is set when the command is to be interrupted.
    """

    def __init__(self, scenario: RapScenario) -> None:
        self.scenario = scenario
        self.url = ""
        self.interruption = asyncio.Event()
        self._call: ReceivedInvocation | None = None
        self._has_cancelled = False
        self._deliveries: list[Delivery] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, request: Request) -> Reply:
        if request.path.endswith((CANCEL, CLOSE)):
            return self._note(request)
        before = self.scenario.path.rstrip("/")
        match request.method, request.path.removeprefix(before):
            case "GET", "/.well-known/rap-toolset" if request.path.startswith(before):
                toolset = {"name": "kit", "endpoint": self._base + INVOKE, "tools": self.scenario.tools}
                return Reply(200, JSON, json.dumps(toolset).encode())
            case "POST", "/kit/invoke" if isinstance(request.document, dict):
                return self._invoke(request.document)
            case "POST", "/choice":
                return Reply(200)
        return Reply(404)

    async def finish(self) -> list[Delivery]:
        """Ends callbacks that are still to be posted; returns those that were."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return self._deliveries

    @property
    def _base(self) -> str:
        return self.url.rstrip("/")

    def _invoke(self, members: Mapping[str, Any]) -> Reply:
        number = 1 if self._call is None else self._call.number + 1
        self._call = call = ReceivedInvocation(number, members, self._base)
        self._start(self._deliver(call, self.scenario.posts(call)))
        if number == 1 and self.scenario.interrupt_s is not None:
            self._start(self._interrupt(self.scenario.interrupt_s))
        return self.scenario.on_call(number)

    def _note(self, request: Request) -> Reply:
        """Answers a cancellation or the closure of a thread, also below a wrong URL, which a check of its own finds."""
        if request.path.endswith(CANCEL) and self._call is not None and not self._has_cancelled:
            self._has_cancelled = True
            self._start(self._deliver(self._call, self.scenario.after_cancel(self._call)))
        return self.scenario.on_notice

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _interrupt(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.interruption.set()

    async def _deliver(self, call: ReceivedInvocation, posts: Sequence[Post]) -> None:
        url = str(call.members.get("callback_url"))
        async with httpx.AsyncClient(timeout=ANSWER_S, trust_env=False) as http:
            for post in posts:
                await asyncio.sleep(post.after_s)
                self._deliveries.append(Delivery(post.name, post.message, await _posted(http, url, post)))


async def _posted(http: httpx.AsyncClient, url: str, post: Post) -> int | None:
    """The status that answers a callback; None without an answer."""
    try:
        return (await http.post(_guessed(url) if post.is_guess else url, json=post.message)).status_code
    except (httpx.HTTPError, httpx.InvalidURL):
        return None


def _guessed(url: str) -> str:
    """A callback URL with its last character replaced."""
    return url[:-1] + ("A" if url[-1:] != "A" else "B")
