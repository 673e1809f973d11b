"""The tools-runner of the RCRT demonstration server: acts on `tool.request.v1`, files a `tool.response.v1`.

Follows RCRT's runner in both editions, M (main) and E (the newer line), silence for what it does not like included.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from gateway.demo.faults import Fault, Faults
from gateway.demo.rcrt_faults import ANNOUNCEMENTS, CONTEXTS, OUTPUTS, RUNNER_FAULTS
from gateway.demo.rcrt_store import Actor, Store, TooLargeError, timestamp
from gateway.demo.rcrt_tools import WORKSPACE, StockTool, stock_tools
from gateway.demo.rcrt_workflow import Workflow
from gateway.demo.toolbox import Json, JsonObject, ToolError

Edition = Literal["M", "E"]

MAX_RUNNING = 5  # processes of the real runner
MAX_WAITING = 1000  # requests in progress and in line
MAX_SEEN = 100  # the real runner forgets everything beyond this, and may then run a request again
MAX_ITEMS = 20  # tool requests of one agent response
MAX_COUNTED = 10_000  # requests whose executions are counted, the latest


@dataclass(frozen=True)
class Profile:
    """What kind of runner: its edition, whether it expands `agent.response.v1`, whether all stock tools may run."""

    edition: Edition = "E"
    standard: bool = False
    as_shipped: bool = False


@dataclass(frozen=True)
class _Request:
    breadcrumb_id: str
    tool: str
    input: Json
    request_id: Json
    requested_by: Json
    heard_at: float


class Runner:
    """Listens to the store and runs what is asked for, at most five at a time."""

    def __init__(self, store: Store, actor: Actor, faults: Faults, profile: Profile) -> None:
        self._store = store
        self._actor = actor
        self._faults = faults
        self._profile = profile
        self._tools = {tool.name: tool for tool in stock_tools(Workflow(store, actor).run)}
        self._loaded: set[str] = set()
        self._seen: set[str] = set()
        self._places = asyncio.Semaphore(MAX_RUNNING)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.executions = dict.fromkeys(self._tools, 0)
        self.requests: OrderedDict[str, int] = OrderedDict()

    def start(self) -> None:
        """Files the tools, loads those that may run, and listens from then on."""
        edition = self._profile.edition
        for tool in self._tools.values():
            runs = tool.shipped or not self._profile.as_shipped
            self._store.create(tool.draft(approved=runs, edition=edition), self._actor, pinned=True)
            if runs:
                self._loaded.add(tool.name)
        if edition == "M":
            entries = [tool.catalogue_entry() for tool in self._tools.values()]  # also what will not run
            context = {"workspace": WORKSPACE, "tools": entries, "totalTools": len(entries), "lastUpdated": timestamp()}
            catalogue = {"schema_name": "tool.catalog.v1", "title": "Tool catalog", "tags": [WORKSPACE, "tool:catalog"]}
            self._store.create({**catalogue, "context": context}, self._actor, pinned=True)
        self._store.listen(self.hear)

    def hear(self, event: JsonObject) -> None:
        """One event of the stream; partial ones have no schema and so mean nothing here."""
        schema_name, listed, context = event.get("schema_name"), event.get("tags"), event.get("context")
        if event["owner_id"] != self._actor.owner_id or not isinstance(context, dict) or not isinstance(listed, list):
            return
        tags = set(listed)
        if schema_name == "agent.response.v1" and self._profile.standard:
            self._expand(context)
        elif schema_name == "tool.code.v1" and self._profile.edition == "E" and {WORKSPACE, "approved"} <= tags:
            self._loaded.update(name for name in self._tools if name == context.get("name"))
        elif schema_name == "tool.request.v1" and {"tool:request", WORKSPACE} <= tags and "health:check" not in tags:
            self._accept(event["breadcrumb_id"], context)

    async def finished(self, breadcrumb_id: str, within_s: float) -> None:
        """Waits until a request is done with, or for so long."""
        if task := self._tasks.get(breadcrumb_id):
            await asyncio.wait({task}, timeout=within_s)

    def _expand(self, context: JsonObject) -> None:
        """One request per item of an agent's response, as the invocation standard means it."""
        items = context.get("tool_requests")
        for item in items[:MAX_ITEMS] if isinstance(items, list) else []:
            if isinstance(item, dict):
                names = ("tool", "input", "requestId", "return_to_llm", "config_id")
                asked = {name: item[name] for name in names if name in item}
                draft = {"schema_name": "tool.request.v1", "title": "Tool request", "tags": ["tool:request", WORKSPACE]}
                self._store.create({**draft, "context": asked}, self._actor)

    def _accept(self, breadcrumb_id: str, context: JsonObject) -> None:
        if breadcrumb_id in self._seen or len(self._tasks) >= MAX_WAITING:
            return
        if len(self._seen) >= MAX_SEEN:
            self._seen.clear()
        self._seen.add(breadcrumb_id)
        tool, given = context.get("tool"), context.get("input")
        # What JavaScript calls falsy is dropped without a word; an empty object is not.
        if not isinstance(tool, str) or given in (None, "", 0, False):
            return
        fault = self._faults.take(tool, RUNNER_FAULTS)
        if fault is not None and fault.name == "absent":
            return
        request_id = context.get("requestId") or breadcrumb_id
        request = _Request(breadcrumb_id, tool, given, request_id, context.get("requestedBy"), time.monotonic())
        self._tasks[breadcrumb_id] = asyncio.create_task(self._answer(request, fault))
        self._tasks[breadcrumb_id].add_done_callback(lambda _: self._tasks.pop(breadcrumb_id, None))

    async def _answer(self, request: _Request, fault: Fault | None) -> None:
        if not self._store.select(f"tool:{request.tool}", "tool.code.v1", limit=1):
            # The one response without the tag of its request.
            error = f"Tool {request.tool} not found. Only tool.code.v1 tools can be executed."
            self._respond(request, ["error"], {"status": "error", "error": error}, fault)
            return
        try:
            output, took_ms = await self._run(request)
            if fault is not None and fault.name in OUTPUTS:
                output = OUTPUTS[fault.name](output)
            measured = {"duration_ms": took_ms, "timedOut": False, "exitCode": 0}
            outcome = {"output": output, "execution_time_ms": _ms_since(request.heard_at), "metadata": measured}
            await self._hold_back(fault)
            self._respond(request, _request_tags(request.request_id), {"status": "success", **outcome}, fault)
        except (ToolError, TooLargeError) as failed:
            text = str(failed) or "Error: Failed to create breadcrumb: 413 Payload Too Large"
            failure = {"status": "error", "error": text, "execution_time_ms": 0}
            self._respond(request, [f"request:{request.request_id}"], failure, fault)
            self._report(request, text)

    async def _run(self, request: _Request) -> tuple[Json, int]:
        """The output, and how long the tool took, which does not count waiting for a place. Raises: ToolError."""
        if request.tool not in self._loaded:
            raise ToolError(f"Error: Tool not found: {request.tool}")
        tool = self._tools[request.tool]
        async with self._places:
            self._count(request)
            started_at = time.monotonic()
            try:
                if not isinstance(request.input, dict):
                    raise ToolError("input must be an object")
                output = await asyncio.wait_for(tool.run(request.input), tool.timeout_ms / 1000)
                took_ms = _ms_since(started_at)
            except TimeoutError:
                raise ToolError(f"Error: Tool execution timed out after {tool.timeout_ms}ms") from None
            except ToolError as failed:
                raise ToolError(self._thrown(tool, failed)) from None
        if not isinstance(request.request_id, str):
            # It looks at the prefix of the id only now, and by then the tool has run.
            raise ToolError("TypeError: requestId.startsWith is not a function")
        return output, took_ms

    def _thrown(self, tool: StockTool, failed: ToolError) -> str:
        """The older edition loses the message, the newer adds a stack."""
        if self._profile.edition == "M":
            return "Error: Tool execution failed"
        stack = f"Error: {failed}\n    at execute (file:///tmp/tools/{tool.name}.ts:1:1)"
        return f"Error: Deno exited with code 1\nTool Error: {failed}\nStack: {stack}"

    async def _hold_back(self, fault: Fault | None) -> None:
        if fault is not None and fault.name == "late":
            await asyncio.sleep(fault.seconds)

    def _respond(self, request: _Request, tags: list[str], outcome: JsonObject, fault: Fault | None) -> None:
        """Raises: TooLargeError."""
        context = {"request_id": request.request_id, "tool": request.tool, **outcome}
        if self._profile.edition == "E" and request.requested_by is not None:
            context["requestedBy"] = request.requested_by
        draft = {
            "schema_name": "tool.response.v1",
            "title": f"{'Response' if outcome['status'] == 'success' else 'Error'}: {request.tool}",
            "tags": [WORKSPACE, "tool:response", *tags],
            "context": context,
        }
        name = "" if fault is None else fault.name
        if name in CONTEXTS:
            draft = CONTEXTS[name](draft)
        for _ in range(2 if name == "duplicate_response" else 1):
            response = self._store.create(draft, self._actor, announce=False)
            for event in ANNOUNCEMENTS[name](response.event()) if name in ANNOUNCEMENTS else [response.event()]:
                self._store.announce(event)

    def _report(self, request: _Request, text: str) -> None:
        """Only diagnostics, and only of the newer edition: nobody waits for it."""
        if self._profile.edition == "M":
            return
        kind = "timeout" if "timed out" in text else "not-found" if "not found" in text else "runtime"
        context = {"tool_name": request.tool, "request_id": request.request_id, "requestedBy": request.requested_by}
        error = {"error_type": kind, "error_message": text, "tool_input": request.input, "retryable": kind == "timeout"}
        tags = ["tool:error", f"tool:{request.tool}", f"error:{kind}", WORKSPACE]
        draft = {"schema_name": "tool.error.v1", "title": f"Tool error: {request.tool}", "tags": tags}
        self._store.create({**draft, "context": {**context, **error}}, self._actor)

    def _count(self, request: _Request) -> None:
        self.executions[request.tool] += 1
        key = str(request.request_id)
        self.requests[key] = self.requests.get(key, 0) + 1
        if len(self.requests) > MAX_COUNTED:
            self.requests.popitem(last=False)


def _ms_since(at: float) -> int:
    return round((time.monotonic() - at) * 1000)


def _request_tags(request_id: str) -> list[str]:
    """The tag stands twice, and ids that begin as those of language models get another one instead."""
    return ["request:llm" if request_id.startswith("llm-") else f"request:{request_id}", f"request:{request_id}"]
