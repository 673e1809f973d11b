"""The stock tool `workflow` of RCRT: steps that are tool requests themselves, in the order of their dependencies.

Follows RCRT's workflow tool with its traps: dependencies must be declared, `${step.field}` is textual, and each step
occupies a place of the runner besides the workflow's own.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable

from jsonschema_rs import Draft202012Validator

from gateway.demo.rcrt_store import Actor, Store
from gateway.demo.rcrt_tools import WORKSPACE, resolve
from gateway.demo.toolbox import Json, JsonObject, ToolError

POLL_S = 0.1
STEP_WAIT_S = 60.0
MAX_STEPS = 50
PLACEHOLDER = re.compile(r"\$\{([\w-]+)((?:\.[\w-]+|\[[0-9]+\])*)\}")
INPUT = Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "steps": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_STEPS,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "minLength": 1, "maxLength": 100},
                        "tool": {"type": "string"},
                        "input": {"type": "object"},
                        "dependencies": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["id", "tool", "input"],
                },
            },
            "returnStep": {"type": "string"},
            "continueOnError": {"type": "boolean"},
        },
        "required": ["steps"],
    },
    mask="The value",
)


class Workflow:
    """Runs workflows through the store, as anybody else would."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor
        self._last_ms = 0

    async def run(self, given: JsonObject) -> Json:
        for error in INPUT.iter_errors(given):
            raise ToolError(f"the workflow is invalid: {error.message}")
        results: JsonObject = {}
        order: list[str] = []
        errors: dict[str, str] = {}

        async def do(step: JsonObject) -> None:
            try:
                results[step["id"]] = await self._step(interpolate(step, results))
                order.append(step["id"])
            except ToolError as failed:
                errors[step["id"]] = str(failed)

        for level in levels({step["id"]: step for step in given["steps"]}):
            await asyncio.gather(*map(do, level))
            if errors and not given.get("continueOnError"):
                failed_id, reason = next(iter(errors.items()))
                raise ToolError(f"Step {failed_id} failed: {reason}")
        if "returnStep" in given:
            step_id = given["returnStep"]
            return results.get(step_id, {"error": errors.get(step_id, f"Step {step_id} has no result")})
        outcome: JsonObject = {"results": results, "executionOrder": order}
        return {**outcome, "errors": errors} if errors else outcome

    async def _step(self, step: JsonObject) -> Json:
        """Files the request of a step and polls for its response. Raises ToolError."""
        request_id = f"workflow-{step['id']}-{self._unique_ms()}"
        draft = {
            "schema_name": "tool.request.v1",
            "title": f"Workflow step: {step['id']}",
            "tags": ["tool:request", "workflow:step", WORKSPACE],
            "context": {"tool": step["tool"], "input": step["input"], "requestId": request_id},
        }
        self._store.create(draft, self._actor)
        try:
            async with asyncio.timeout(STEP_WAIT_S):
                context = await self._response(request_id)
        except TimeoutError:
            raise ToolError(f"no response within {STEP_WAIT_S:.0f} s") from None
        if context.get("status") == "error":
            raise ToolError(str(context.get("error")))
        return context.get("output")

    async def _response(self, request_id: str) -> JsonObject:
        """Polls, as the real tool does, and so does not find responses without the tag."""
        while True:
            for found in self._store.select(f"request:{request_id}", "tool.response.v1", limit=1):
                if isinstance(found.context, dict):
                    return found.context
            await asyncio.sleep(POLL_S)

    def _unique_ms(self) -> int:
        """The clock, but never the same twice: two workflows must not read each other's steps."""
        self._last_ms = max(self._last_ms + 1, int(time.time() * 1000))
        return self._last_ms


def levels(steps: dict[str, JsonObject]) -> list[list[JsonObject]]:
    """Steps that may run together, after all they depend on. Raises ToolError."""
    ordered: list[list[JsonObject]] = []
    done: set[str] = set()
    is_ready: Callable[[JsonObject], bool] = lambda step: done.issuperset(step.get("dependencies", ()))  # noqa: E731
    while waiting := [step for name, step in steps.items() if name not in done]:
        level = list(filter(is_ready, waiting))
        if not level:
            names = ", ".join(step["id"] for step in waiting)
            raise ToolError(f"Circular dependency detected: {names}")
        ordered.append(level)
        done.update(step["id"] for step in level)
    return ordered


def interpolate(step: JsonObject, results: JsonObject) -> JsonObject:
    """Replaces placeholders in the text of a step. Raises ToolError when what comes out is no longer JSON."""

    def replacement(match: re.Match[str]) -> str:
        try:
            value = resolve(results[match[1]], match[2])
        except (KeyError, ToolError):
            return match[0]
        return value if isinstance(value, str) else json.dumps(value)

    try:
        interpolated: JsonObject = json.loads(PLACEHOLDER.sub(replacement, json.dumps(step)))
    except ValueError:
        raise ToolError("the step is not JSON once its placeholders are filled in") from None
    return interpolated
