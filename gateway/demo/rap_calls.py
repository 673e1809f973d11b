"""Invocations as a RAP tool server reads them, and the messages it sends back about them.

Follows the Reactive Agent Protocol: Tool Invocation, Tool Result, Subscription Events, OAuth, User Choice.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TypeAlias

from jsonschema_rs import Draft202012Validator, ValidationError

from gateway.demo.toolbox import Json, JsonObject, RefusedError, ToolError, object_schema

Message: TypeAlias = JsonObject

MAX_ID_CHARACTERS = 256  # ids are remembered

ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}
OPTIONAL_ID = {"type": ["string", "null"], "maxLength": MAX_ID_CHARACTERS}
URL = {"type": "string", "minLength": 1, "maxLength": 2048}
ADDRESS = Draft202012Validator(
    {
        "type": "object",
        "properties": {"id": ID, "group_id": ID, "callback_url": URL},
        "required": ["id", "group_id", "callback_url"],
    }
)
REST = Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "minLength": 1, "maxLength": 128},
            "arguments": {"type": "object"},
            "call_id": OPTIONAL_ID,
            "user_id": OPTIONAL_ID,
            "thread_ancestors": {"type": ["array", "null"], "items": ID, "maxItems": 100},
        },
        "required": ["operation", "arguments"],
    },
    mask="The value",
)


@dataclass(frozen=True)
class Invocation:
    """One call. `problem` says what is wrong with it; its result has to tell the caller."""

    id: str
    group_id: str
    callback_url: str
    operation: str = ""
    arguments: JsonObject | None = None
    call_id: str | None = None
    user_id: str | None = None
    problem: str | None = None

    @classmethod
    def read(cls, document: Json) -> Invocation:
        """Raises RefusedError (422) only if there is nowhere to send a result to; any other flaw is a `problem`."""
        if not ADDRESS.is_valid(document):
            raise RefusedError("The invocation must have id, group_id and callback_url", status=422)
        address = {name: document[name] for name in ("id", "group_id", "callback_url")}
        for error in REST.iter_errors(document):
            return cls(**address, problem=_told(error))
        rest = {name: document.get(name) for name in ("arguments", "call_id", "user_id")}
        return cls(**address, operation=document["operation"], **rest)

    def message(self, kind: str, **fields: Json) -> Message:
        """A message about the thread as a whole."""
        return {"type": kind, "group_id": self.group_id, **fields}

    def answer(self, kind: str, **fields: Json) -> Message:
        """A message about this call: `tool_result`, `oauth` or `user_choice`."""
        return self.message(kind, id=self.id, call_id=self.call_id, **fields)

    def result(self, text: str, **fields: Json) -> Message:
        return self.answer("tool_result", text=text, **fields)

    def json_result(self, value: Json) -> Message:
        """Structured results travel as text (Tool Result, `text`)."""
        return self.result(json.dumps(value))

    def error(self, message: str) -> Message:
        """RAP has no error flag, only this prefix (Tool Result, Error Results)."""
        return self.result(f"Error: {message}")

    def event(self, text: str, **fields: Json) -> Message:
        """Subscription events name the call `tool_call_id`, unlike everything else."""
        return self.message("subscription_event", tool_call_id=self.id, text=text, **fields)


Messages: TypeAlias = AsyncGenerator[Message, None]


@dataclass(frozen=True)
class Operation:
    """What a toolset offers. `run` yields the messages of one call and raises ToolError to end it with an error."""

    name: str
    description: str
    input_schema: JsonObject
    run: Callable[[Invocation, JsonObject], Messages]
    annotations: JsonObject

    def definition(self) -> JsonObject:
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }

    def check(self, call: Invocation) -> JsonObject:
        """The arguments of a call. Raises ToolError if they are invalid (Tool Invocation, Tool Validation)."""
        given = call.arguments or {}
        for error in Draft202012Validator(self.input_schema, offline=True, mask="The value").iter_errors(given):
            raise ToolError(f"The arguments are invalid: {_told(error)}")
        return given


def arguments(properties: JsonObject | None = None, *required: str) -> JsonObject:
    """An `inputSchema`, also for operations without arguments (Toolsets)."""
    return object_schema(properties, *required) if properties else {"type": "object", "additionalProperties": False}


def _told(error: ValidationError) -> str:
    return "".join(f"/{step}" for step in error.instance_path) + f" {error.message}"
