"""Runs the RAP runtime under test against the scripted tool server, once per scenario, and records what it does.

The operator's command reads the toolset, invokes the tool once, prints the text of the result, and exits with 0; or
with another code if there is no result. Its environment is that of clients of other protocols.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from msgspec import Struct

from gateway.conformance.checks import Exchange, UnfitError, shown
from gateway.conformance.clients.rap.scenarios import INPUT, SCENARIOS, TOOL, Call, Post, Scenario
from gateway.conformance.clients.runs import LIMIT_S, Runs, made_up
from gateway.conformance.clients.scripted import Reply, Request, ScriptedServer

ANSWER_S = 5.0  # for the answer to a callback
TOOLSET, INVOKE, CHOICE = "/.well-known/rap-toolset", "/kit/invoke", "/choice"
JSON = {"content-type": "application/json"}


class Delivery(Struct, frozen=True):
    """A callback that was posted; `status` None: it got no answer in time."""

    name: str
    message: Any
    status: int | None

    @property
    def text(self) -> str:
        answer = "no answer" if self.status is None else f"answered with {self.status}"
        return f"callback {json.dumps(self.message, ensure_ascii=False)}: {answer}"


class Seen(Struct, frozen=True):
    """What a runtime did in a scenario. `exit_code` is None if it was killed at the time limit."""

    scenario: Scenario
    exit_code: int | None
    stdout: str
    stderr: str
    requests: Sequence[Request]
    deliveries: Sequence[Delivery]

    @property
    def exchange(self) -> Exchange:
        """For a report: its requests, and what it was sent and printed."""
        sent = "\n\n".join(request.text for request in self.requests) or "(nothing)"
        end = f"(killed after {LIMIT_S:g} s)" if self.exit_code is None else f"(exit code {self.exit_code})"
        output = [f"{name}: {it.strip()}" for name, it in (("stdout", self.stdout), ("stderr", self.stderr)) if it]
        return Exchange(shown(sent), shown("\n".join([end, *output, *(each.text for each in self.deliveries)])))

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with the whole exchange unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)

    @property
    def output(self) -> str:
        return f"{self.stdout}\n{self.stderr}"

    @property
    def invocations(self) -> list[Request]:
        """Requests that invoke a tool."""
        return [it for it in self.requests if it.method == "POST" and it.path.endswith(INVOKE)]

    def invoked(self) -> Mapping[str, Any]:
        """The members of the first invocation. Raises UnfitError without one."""
        self.must(bool(self.invocations), "An invocation of the tool.")
        found = self.invocations[0].document
        self.must(isinstance(found, dict), "An invocation that is a JSON object.")
        members: Mapping[str, Any] = found
        return members

    def statuses(self, name: str) -> list[int | None]:
        """How the callbacks of a name were answered."""
        return [each.status for each in self.deliveries if each.name == name]

    def must_return(self, text: str) -> None:
        """Raises UnfitError unless it printed a result."""
        self.must(self.exit_code == 0, "Exit code 0 after a call that has a result.")
        self.must(text in self.stdout, f"The text {text!r} on the standard output.")

    def must_invoke_once(self) -> None:
        """Raises UnfitError unless it sent exactly one invocation."""
        self.invoked()
        self.must(len(self.invocations) == 1, f"One invocation, not {len(self.invocations)}.")


class RapRuntime(Runs[Seen]):
    """The runtime under test."""

    async def play(self, name: str) -> Seen:
        server, script = ScriptedServer(), Script(SCENARIOS[name])
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
            code, stdout, stderr = await self.start(words)
            deliveries = await script.finish()
            return Seen(script.scenario, code, stdout, stderr, tuple(server.requests), deliveries)
        finally:
            await server.aclose()


@asynccontextmanager
async def rap_runtime(command: Sequence[str], *, limit_s: float = LIMIT_S) -> AsyncIterator[RapRuntime]:
    """The runtime that a command starts. Raises ValueError if there is no such program."""
    runtime = RapRuntime(command, limit_s=limit_s)
    try:
        yield runtime
    finally:
        await runtime.aclose()


class Script:
    """Plays a scenario: answers requests, and posts callbacks. `url` is the URL that the runtime is given."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.url = ""
        self._calls = 0
        self._deliveries: list[Delivery] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, request: Request) -> Reply:
        before = self.scenario.path.rstrip("/")
        match request.method, request.path.removeprefix(before):
            case "GET", "/.well-known/rap-toolset" if request.path.startswith(before):
                toolset = {"name": "kit", "endpoint": self._base + INVOKE, "tools": self.scenario.tools}
                return Reply(200, JSON, json.dumps(toolset).encode())
            case "POST", "/kit/invoke" if isinstance(request.document, dict):
                return self._invoke(request.document)
            case "POST", "/choice" | "/cancel_tool_call" | "/close_thread":
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
        self._calls += 1
        call = Call(self._calls, members, self._base)
        task = asyncio.create_task(self._deliver(str(members.get("callback_url")), self.scenario.posts(call)))
        self._tasks.add(task)
        return self.scenario.on_call(self._calls)

    async def _deliver(self, url: str, posts: Sequence[Post]) -> None:
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
