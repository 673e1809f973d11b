"""Invocations as a RAP tool server reads them, and the messages it sends back about them.

Follows the Reactive Agent Protocol: Tool Invocation, Tool Result, Subscription Events, OAuth, User Choice.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TypeAlias

from jsonschema_rs import Draft202012Validator

from gateway.demo.toolbox import Json, JsonObject, RefusedError, ToolError, object_schema

Message: TypeAlias = JsonObject

MAX_ID_CHARACTERS = 256  # ids are remembered
MAX_URL_CHARACTERS = 2048
NAME_CHARACTERS = 128  # Toolsets, Tool Definition: `name`

ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}
OPTIONAL_ID = {"type": ["string", "null"], "maxLength": MAX_ID_CHARACTERS}
ADDRESS = Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "id": ID,
            "group_id": ID,
            "callback_url": {"type": "string", "minLength": 1, "maxLength": MAX_URL_CHARACTERS},
        },
        "required": ["id", "group_id", "callback_url"],
    }
)
REST = Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "minLength": 1, "maxLength": NAME_CHARACTERS},
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
    """One call. `problem` says what is wrong with it, to be told in its result."""

    id: str
    group_id: str
    callback_url: str
    operation: str
    arguments: JsonObject
    call_id: str | None
    user_id: str | None
    problem: str | None

    @classmethod
    def read(cls, document: Json) -> Invocation:
        """Raises RefusedError (422) only if there is nowhere to send a result to: all else is told in one."""
        if not ADDRESS.is_valid(document):
            raise RefusedError("The invocation must have id, group_id and callback_url", status=422)
        problem = next((f"{_path(error.instance_path)}{error.message}" for error in REST.iter_errors(document)), None)
        call_id, operation, arguments = document.get("call_id"), document.get("operation"), document.get("arguments")
        user_id = document.get("user_id")
        return cls(
            id=document["id"],
            group_id=document["group_id"],
            callback_url=document["callback_url"],
            operation=operation if isinstance(operation, str) else "",
            arguments=arguments if isinstance(arguments, dict) else {},
            call_id=call_id if isinstance(call_id, str) else None,
            user_id=user_id if isinstance(user_id, str) else None,
            problem=problem,
        )

    def message(self, kind: str, **fields: Json) -> Message:
        """A message that is not about one call: it carries the thread alone."""
        return {"type": kind, "group_id": self.group_id, **fields}

    def answer(self, kind: str, **fields: Json) -> Message:
        """A message about this call: `tool_result`, `oauth` or `user_choice`."""
        return self.message(kind, id=self.id, call_id=self.call_id, **fields)

    def result(self, text: str, **fields: Json) -> Message:
        return self.answer("tool_result", text=text, **fields)

    def json_result(self, value: Json, **fields: Json) -> Message:
        """Structured results travel as text (Tool Result, `text`)."""
        return self.result(json.dumps(value), **fields)

    def error(self, message: str) -> Message:
        """There is no error flag; the prefix is all there is (Tool Result, Error Results)."""
        return self.result(f"Error: {message}")

    def event(self, text: str, **fields: Json) -> Message:
        """Subscription events name the call `tool_call_id`, unlike everything else."""
        return self.message("subscription_event", tool_call_id=self.id, text=text, **fields)


Run: TypeAlias = Callable[[Invocation], AsyncGenerator[Message, None]]


@dataclass(frozen=True)
class Operation:
    """What a toolset offers. `run` yields the messages of one call and raises ToolError to end it with an error."""

    name: str
    description: str
    input_schema: JsonObject
    run: Run
    annotations: JsonObject

    def definition(self) -> JsonObject:
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }


class Operations:
    """The operations of one toolset, with their argument schemas compiled."""

    def __init__(self, operations: list[Operation]) -> None:
        self._operations = {operation.name: operation for operation in operations}
        self._validators = {
            operation.name: Draft202012Validator(operation.input_schema, offline=True, mask="The value")
            for operation in operations
        }

    @property
    def names(self) -> list[str]:
        return list(self._operations)

    def definitions(self) -> list[JsonObject]:
        return [operation.definition() for operation in self._operations.values()]

    def find(self, call: Invocation) -> Operation:
        """Raises ToolError for anything wrong with the call (Tool Invocation, Tool Validation)."""
        if call.problem is not None:
            raise ToolError(f"The invocation is invalid: {call.problem}")
        operation = self._operations.get(call.operation)
        if operation is None:
            raise ToolError(f"There is no such operation; there are {', '.join(self._operations)}")
        for error in self._validators[call.operation].iter_errors(call.arguments):
            raise ToolError(f"The arguments are invalid: {_path(error.instance_path)}{error.message}")
        return operation


def arguments(properties: JsonObject | None = None, *required: str) -> JsonObject:
    """An `inputSchema`; the SHOULD for operations without arguments comes out of it too (Toolsets)."""
    return object_schema(properties, *required) if properties else {"type": "object", "additionalProperties": False}


def _path(steps: list[str | int]) -> str:
    return "".join(f"/{step}" for step in steps) + ": " if steps else ""
