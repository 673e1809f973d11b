"""What the demonstration tool servers have in common: tools, their versions, and how one call is run.

The order of a call and its refusals follow Call Tool of OTC 1.0 and OXP 1.0; how they are dressed is left to each
server. A repeated `call_id` of a user gets the result of the first call. `executions` counts repetitions, too: it shows
how often a call was sent.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from jsonschema_rs import Draft202012Validator

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]
Version: TypeAlias = tuple[int, int, int]

TOOL_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]+)(?:\.([0-9]+)\.([0-9]+))?)?")
MAX_REPORTED = 20  # problems of one input
MAX_KEPT = 1000  # results of calls with an id, the latest
MAX_KEPT_CHARACTERS = 64 * 1024  # of an input; a call with a larger one runs each time


def _named(member: str) -> JsonObject:
    """A list of objects with an id and one other member."""
    properties = {"id": {"type": "string"}, member: {"type": "string"}}
    return {"type": "array", "items": {"type": "object", "properties": properties, "required": ["id", member]}}


# CallToolRequest, the same in both specifications; the lengths are ours, since ids are looked up and users remembered.
CALL_TOOL_REQUEST = {
    "type": "object",
    "properties": {
        "call_id": {"type": "string"},
        "trace_id": {"type": "string"},
        "tool_id": {"type": "string", "maxLength": 256},
        "input": {"type": "object"},
        "context": {
            "type": "object",
            "properties": {
                "authorization": _named("token"),
                "secrets": _named("value"),
                "user_id": {"type": "string", "maxLength": 256},
            },
        },
    },
    "required": ["tool_id"],
    "additionalProperties": False,
}


class NotRunError(Exception):
    """A request that got no tool to run: `body` is a ServerErrorResponse or a ValidationErrorResponse."""

    def __init__(self, message: str, *, status: int = 400, headers: dict[str, str] | None = None, **more: Json) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body: JsonObject = {"message": message, **more}


class ToolError(Exception):
    """A tool that ran and failed: `error` is the object of that name in the specifications."""

    def __init__(self, message: str, **more: Json) -> None:
        super().__init__(message)
        self.error: JsonObject = {"message": message, **more}


@dataclass(frozen=True)
class Context:
    """What the caller lends to one call; an empty string counts as nothing."""

    tokens: dict[str, str]
    secrets: dict[str, str]
    user_id: str

    @classmethod
    def read(cls, context: JsonObject) -> Context:
        return cls(
            tokens={entry["id"]: entry["token"] for entry in context.get("authorization", ()) if entry["token"]},
            secrets={entry["id"]: entry["value"] for entry in context.get("secrets", ()) if entry["value"]},
            user_id=context.get("user_id", ""),
        )


Run: TypeAlias = Callable[[JsonObject, Context], Awaitable[Json]]


@dataclass(frozen=True)
class DemoTool:
    """One version of one tool. `output_schema` None: it returns nothing."""

    id: str
    version: Version
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    run: Run
    requirements: JsonObject | None = None

    @property
    def name(self) -> str:
        return self.id.replace(".", "_")

    def definition(self) -> JsonObject:
        """The ToolDefinition as OXP 1.0 has it; OTC wraps its `input_schema`."""
        version = ".".join(map(str, self.version))
        definition = {
            "id": f"{self.id}@{version}",
            "name": self.name,
            "description": self.description,
            "version": version,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
        }
        return definition if self.requirements is None else {**definition, "requirements": self.requirements}


def object_schema(properties: JsonObject, *required: str) -> JsonObject:
    """The schema of a closed object."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


@dataclass(frozen=True)
class _Kept:
    """A call with an id, with its arguments as JSON, and the result that it has or will have."""

    tool: DemoTool
    arguments: str
    result: asyncio.Future[JsonObject]


class Toolbox:
    """The tools of one server. `authorize` returns the challenges that stand between a context and the tool."""

    def __init__(
        self, tools: Iterable[DemoTool], authorize: Callable[[Context], list[JsonObject]] | None = None
    ) -> None:
        self._versions: dict[str, dict[Version, DemoTool]] = {}
        self._validators: dict[tuple[str, Version], Draft202012Validator] = {}
        for tool in tools:
            self._versions.setdefault(tool.id, {})[tool.version] = tool
            self._validators[tool.id, tool.version] = _validator(tool.input_schema)
        self._request = _validator(CALL_TOOL_REQUEST)
        self._authorize = authorize
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self.executions = dict.fromkeys(self._versions, 0)

    def definitions(self) -> list[JsonObject]:
        """Every version of every tool, ascending: clients that key by name keep the last one."""
        return [tool.definition() for versions in self._versions.values() for _, tool in sorted(versions.items())]

    def resolve(self, tool_id: str) -> DemoTool:
        """Finds the tool: `@x.y.z` exactly, `@x` is `x.0.0`, none is the numerically highest (Version Resolution).

        Raises: RefusedError.
        """
        match = TOOL_ID.fullmatch(tool_id)
        if match is None:
            raise NotRunError("The tool ID is invalid", developer_message="It must look like Toolkit.Tool[@x|@x.y.z]")
        name, major, minor, patch = match.groups()
        versions = self._versions.get(name)
        message = f"Tool '{name.replace('.', '_')}' was not found"
        if versions is None:
            raise NotRunError(message, developer_message=f"There is no {name}")
        version = max(versions) if major is None else (int(major), int(minor or 0), int(patch or 0))
        if version not in versions:
            asked = ".".join(map(str, version))
            raise NotRunError(message, developer_message=f"{name} version {asked} is not available")
        return versions[version]

    async def call(self, request: Json) -> JsonObject:
        """Runs a CallToolRequest and returns its CallToolResponse. Raises RefusedError while no tool has run."""
        for error in self._request.iter_errors(request):
            path = "".join(f"/{step}" for step in error.instance_path)
            raise NotRunError("The request is invalid", developer_message=f"request{path}: {error.message}"[:300])
        tool = self.resolve(request["tool_id"])
        arguments = request.get("input", {})
        # Input before requirements: a user should not connect an account for a call that cannot run.
        self._check_input(tool, arguments)
        context = Context.read(request.get("context", {}))
        self._check_requirements(tool, context)

        self.executions[tool.id] += 1
        call_id, given = request.get("call_id"), json.dumps(arguments, sort_keys=True)
        if not call_id or len(given) > MAX_KEPT_CHARACTERS:
            return await self._run(tool, arguments, context, call_id or str(uuid.uuid4()))
        key = context.user_id, call_id
        kept = self._kept.get(key)
        if kept is None:
            running = asyncio.ensure_future(self._run(tool, arguments, context, call_id))
            kept = self._kept[key] = _Kept(tool, given, running)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        if (kept.tool, kept.arguments) != (tool, given):
            raise NotRunError("The call_id was used for another call")
        result = await asyncio.shield(kept.result)
        if result.get("error", {}).get("can_retry"):
            self._kept.pop(key, None)
        return result

    async def _run(self, tool: DemoTool, arguments: JsonObject, context: Context, call_id: str) -> JsonObject:
        """Runs a tool; returns its CallToolResponse."""
        started = time.perf_counter()
        outcome: JsonObject
        try:
            outcome = {"success": True, "value": await tool.run(arguments, context)}
        except ToolError as failed:
            outcome = {"success": False, "error": failed.error}
        duration_ms = round((time.perf_counter() - started) * 1000, 3)
        return {"call_id": call_id, "duration": duration_ms, **outcome}

    def _check_input(self, tool: DemoTool, arguments: JsonObject) -> None:
        errors: dict[str, str] = {}
        for error in islice(self._validators[tool.id, tool.version].iter_errors(arguments), MAX_REPORTED):
            errors.setdefault(str([*error.instance_path, "input"][0]), error.message)
        if errors:
            raise NotRunError("Some input parameters are invalid", status=422, parameter_errors=errors)

    def _check_requirements(self, tool: DemoTool, context: Context) -> None:
        """Raises RefusedError with everything that is missing. Of secrets it names the ids (an extension)."""
        required = tool.requirements or {}
        missing: JsonObject = {}
        secrets = [{"id": entry["id"]} for entry in required.get("secrets", ()) if entry["id"] not in context.secrets]
        if secrets:
            missing["secrets"] = secrets
        if required.get("user_id") and not context.user_id:
            # Consent belongs to a user: a challenge needs one.
            missing["user_id"] = True
        elif self._authorize and required.get("authorization") and (challenges := self._authorize(context)):
            missing["authorization"] = challenges
        if missing:
            raise NotRunError(_what_to_do(missing), missing_requirements=missing)


def _validator(schema: JsonObject) -> Draft202012Validator:
    return Draft202012Validator(schema, offline=True, mask="The value")  # messages must not quote what was sent


def _what_to_do(missing: JsonObject) -> str:
    if "authorization" in missing:
        return "Authorization is required before this tool can be called"
    return "The user must be named" if "user_id" in missing else "A secret is required before this tool can be called"
