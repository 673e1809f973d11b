"""Breadcrumbs in memory and the runner of the RCRT demonstration server, with its stock tools.

Follows RCRT: every new breadcrumb is announced once; a `tool.request.v1` is answered with a `tool.response.v1`. Nothing
checks an input but the tool itself, and what the runner does not like it drops without an answer.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.demo.toolbox import Json, JsonObject, ToolError

OWNER_ID = "00000000-0000-0000-0000-000000000001"  # the tenant of the runner and its tools
WORKSPACE = "workspace:tools"
MAX_CRUMBS = 10_000  # the oldest are dropped
MAX_RUNNING = 5  # processes of the real runner
MAX_WAITING = 2000  # requests in progress and in line
MAX_COUNTED = 10_000  # requests whose executions are counted, the latest
MAX_WAIT_S = 60


class BreadcrumbStore:
    """All breadcrumbs, the latest last. `listeners` hear of each that is new or changed."""

    def __init__(self) -> None:
        self.crumbs: OrderedDict[str, JsonObject] = OrderedDict()
        self.listeners: list[Callable[[JsonObject], None]] = []

    def create(self, draft: JsonObject, owner_id: str = OWNER_ID, *, announce: bool = True) -> JsonObject:
        """Stores a breadcrumb and returns its whole record."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        crumb = {"id": str(uuid.uuid4()), "owner_id": owner_id, **draft}
        crumb |= {"version": 1, "created_at": now, "updated_at": now}
        self.crumbs[crumb["id"]] = crumb
        if len(self.crumbs) > MAX_CRUMBS:
            del self.crumbs[next(key for key, each in self.crumbs.items() if each["schema_name"] != "tool.code.v1")]
        if announce:
            self.announce(event(crumb))
        return crumb

    def change(self, crumb: JsonObject, members: JsonObject) -> None:
        """Replaces members of a breadcrumb, and announces it."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        crumb |= {**members, "version": crumb["version"] + 1, "updated_at": now}
        self.crumbs.move_to_end(crumb["id"])
        self.announce(event(crumb))

    def announce(self, event: JsonObject) -> None:
        for listener in self.listeners:
            listener(event)

    def select(self, tag: str | None, schema_name: str | None) -> list[JsonObject]:
        """The latest first, of all tenants."""
        found = (each for each in reversed(self.crumbs.values()) if tag is None or tag in each["tags"])
        return [each for each in found if schema_name is None or each["schema_name"] == schema_name]


def event(crumb: JsonObject) -> JsonObject:
    """A new breadcrumb is announced as updated, too; only its version 1 shows that it is new."""
    names = ("owner_id", "version", "tags", "schema_name", "updated_at", "context")
    return {"breadcrumb_id": crumb["id"], **{name: crumb[name] for name in names}, "type": "breadcrumb.updated"}


@dataclass(frozen=True)
class StockTool:
    """One tool, with the properties of its input."""

    name: str
    description: str
    inputs: JsonObject
    run: Callable[[JsonObject], Awaitable[Json]]
    required: tuple[str, ...] = ()

    def draft(self) -> JsonObject:
        """The breadcrumb that offers the tool."""
        return {
            "schema_name": "tool.code.v1",
            "title": f"Tool: {self.name}",
            "description": self.description,
            "semantic_version": "2.1.0",
            "tags": ["tool", f"tool:{self.name}", WORKSPACE, "approved", "validated"],
            "context": {
                "name": self.name,
                "input_schema": {"type": "object", "properties": self.inputs, "required": list(self.required)},
                "output_schema": {"type": "object"},
            },
        }


@dataclass(frozen=True)
class ToolRequest:
    """One `tool.request.v1`; without an id of its own it is known by that of its breadcrumb."""

    tool: str
    input: Json
    request_id: str


class Runner:
    """Listens to the store and runs the tools that are asked for, at most five at a time."""

    def __init__(self, store: BreadcrumbStore, tools: list[StockTool]) -> None:
        self.store = store
        self._tools = {tool.name: tool for tool in tools}
        self._places = asyncio.Semaphore(MAX_RUNNING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_tool = dict.fromkeys(self._tools, 0)
        self._by_request: OrderedDict[str, int] = OrderedDict()
        for tool in tools:
            store.create(tool.draft())
        store.listeners.append(self.hear)

    def executions(self) -> Json:
        """How often each tool and each request ran."""
        return {"tools": self._by_tool, "requests": self._by_request}

    def hear(self, event: JsonObject) -> None:
        """Accepts the requests among the events."""
        tags, context = event.get("tags"), event.get("context")
        if event.get("version") != 1:  # each request runs once, whatever becomes of its breadcrumb
            return
        if event.get("schema_name") != "tool.request.v1" or not isinstance(tags, list) or not isinstance(context, dict):
            return
        tool, given = context.get("tool"), context.get("input")
        # The real runner drops what JavaScript calls falsy; an empty object is not.
        falsy = given in (None, "", 0, False)
        if (
            {"tool:request", WORKSPACE} <= set(tags)
            and "health:check" not in tags
            and isinstance(tool, str)
            and not falsy
        ):
            request_id = str(context.get("requestId") or event["breadcrumb_id"])
            self.accept(ToolRequest(tool, given, request_id))

    def accept(self, request: ToolRequest) -> None:
        """Has a request answered."""
        if len(self._tasks) < MAX_WAITING:
            task = asyncio.create_task(self.answer(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def answer(self, request: ToolRequest) -> None:
        """Runs the tool and files the response."""
        tags = [f"request:{request.request_id}"]
        started_at = time.monotonic()
        if not self.store.select(f"tool:{request.tool}", "tool.code.v1"):
            tags = ["error"]  # the one response without the tag of its request
            error = f"Tool {request.tool} not found. Only tool.code.v1 tools can be executed."
            outcome: JsonObject = {"status": "error", "error": error}
        else:
            try:
                outcome = {"status": "success", "output": await self.run(request)}
            except ToolError as failed:
                stack = f"Error: {failed}\n    at execute (file:///tmp/tools/{request.tool}.ts:1:1)"
                error = f"Error: Deno exited with code 1\nTool Error: {failed}\nStack: {stack}"
                outcome = {"status": "error", "error": error}
            outcome["execution_time_ms"] = round((time.monotonic() - started_at) * 1000)
        self.respond(
            {
                "schema_name": "tool.response.v1",
                "title": f"Response: {request.tool}",
                "tags": [WORKSPACE, "tool:response", *tags],
                "context": {"request_id": request.request_id, "tool": request.tool, **outcome},
            },
            request,
        )

    async def run(self, request: ToolRequest) -> Json:
        """The output of the tool. Raises ToolError."""
        if request.tool not in self._tools or not isinstance(request.input, dict):
            raise ToolError("Tool not found" if request.tool not in self._tools else "input must be an object")
        async with self._places:
            self._by_tool[request.tool] += 1
            self._by_request[request.request_id] = self._by_request.get(request.request_id, 0) + 1
            if len(self._by_request) > MAX_COUNTED:
                self._by_request.popitem(last=False)
            return await self._tools[request.tool].run(request.input)

    def respond(self, draft: JsonObject, _request: ToolRequest) -> None:
        """Files a response."""
        self.store.create(draft)


async def echo(given: JsonObject) -> Json:
    message = given.get("message")
    if not isinstance(message, str) or not message:
        raise ToolError("message must be a non-empty string")
    return {"echo": message}


async def random_numbers(given: JsonObject) -> Json:
    low, high, count = (given.get(name, default) for name, default in (("min", 0), ("max", 100), ("count", 1)))
    if not all(map(_is_number, (low, high, count))) or not 1 <= count <= 10:
        raise ToolError("min, max and count must be numbers, and count between 1 and 10")
    first, last = math.ceil(low), math.floor(high)
    if first > last:
        raise ToolError("there is no whole number between min and max")
    return {"numbers": [random.randint(first, last) for _ in range(int(count))]}  # noqa: S311 - no secret


async def timer(given: JsonObject) -> Json:
    seconds: Json = given.get("seconds")
    if not _is_number(seconds) or not 0 <= seconds <= MAX_WAIT_S:
        raise ToolError(f"seconds must be a number between 0 and {MAX_WAIT_S}")
    await asyncio.sleep(seconds)
    return {"waited": seconds, "message": f"Waited {seconds} seconds"}


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _typed(type_: str, description: str) -> JsonObject:
    return {"type": type_, "description": description}


def stock_tools() -> list[StockTool]:
    """Some of the tools that RCRT ships."""
    message = {"message": _typed("string", "What to repeat")}
    limits = {"min": _typed("number", "The lowest, 0 if left out"), "max": _typed("number", "The highest, 100 then")}
    limits["count"] = _typed("number", "How many, 1 to 10")
    seconds = {"seconds": _typed("number", f"0 to {MAX_WAIT_S}")}
    return [
        StockTool("echo", "Echoes a message.", message, echo, ("message",)),
        StockTool("random", "Generates random whole numbers.", limits, random_numbers),
        StockTool("timer", "Waits.", seconds, timer, ("seconds",)),
    ]
