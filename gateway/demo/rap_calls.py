"""Invocations of the RAP demonstration server, and its operations: a build pipeline that reports back in every way.

Follows the Reactive Agent Protocol: Tool Invocation, Tool Result, Subscription Events, OAuth, User Choice.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from jsonschema_rs import Draft202012Validator, ValidationError

from gateway.demo.consent import ConsentRecords
from gateway.demo.toolbox import Json, JsonObject, NotRunError, ToolError, object_schema

Message: TypeAlias = JsonObject

MAX_ID_CHARACTERS = 256  # ids are remembered
MAX_BUILD_S = 600
MAX_EVENTS = 50
MAX_SOURCE_CHARACTERS = 20_000
MAX_LINE_CHARACTERS = 120
MAX_QUESTIONS = 1000  # open ones, over all calls
CHOICE_WAIT_S = 600.0  # the time a person may take; RAP wants it documented
LOOK_S = 0.05  # between two looks at whether the user has consented
PROVIDER = "demo-deploy"
CHOICES = ("Roll back", "Keep")
KEEP = 1
# One grey pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="

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
class RapInvocation:
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
    def read(cls, document: Json) -> RapInvocation:
        """Raises RefusedError (422) only if there is nowhere to send a result to; any other flaw is a `problem`."""
        if not ADDRESS.is_valid(document):
            raise NotRunError("The invocation must have id, group_id and callback_url", status=422)
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
class RapOperation:
    """What a toolset offers. `run` yields the messages of one call and raises ToolError to end it with an error."""

    name: str
    description: str
    input_schema: JsonObject
    run: Callable[[RapInvocation, JsonObject], Messages]
    annotations: JsonObject

    def definition(self) -> JsonObject:
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }

    def check(self, call: RapInvocation) -> JsonObject:
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


class Questions:
    """Choices that wait for a user, by the unguessable end of the address they are answered at."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._open: dict[str, tuple[str, asyncio.Future[int]]] = {}

    def ask(self, call: RapInvocation) -> tuple[str, asyncio.Future[int]]:
        """Opens a question; returns its `response_url`, and the selection to wait for. Raises ToolError."""
        if len(self._open) >= MAX_QUESTIONS:
            raise ToolError("Too many questions are open")
        key = secrets.token_urlsafe(24)
        selected: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._open[key] = call.id, selected
        selected.add_done_callback(lambda _: self._open.pop(key, None))
        return f"{self._base_url}/user_choice_response/{key}", selected

    def answer(self, key: str, document: Json) -> None:
        """Takes a selection; there is no second one. Raises RefusedError (404)."""
        call_id, selected = self._open.get(key, ("", None))
        if selected is None or not isinstance(document, dict) or document.get("id") != call_id:
            raise NotRunError("There is no such question", status=404)
        index = document.get("selected")
        if type(index) is not int or index not in range(len(CHOICES)):
            # The flow has failed, and so must the call (User Choice, Error Handling).
            selected.set_exception(ToolError("The selection is not one of the choices"))
        else:
            selected.set_result(index)


async def lint(call: RapInvocation, given: JsonObject) -> Messages:
    problems: list[JsonObject] = []
    for number, line in enumerate(given["source"].splitlines(), 1):
        if line != line.rstrip():
            problems.append({"line": number, "problem": "trailing whitespace"})
        if len(line) > MAX_LINE_CHARACTERS:
            problems.append({"line": number, "problem": f"longer than {MAX_LINE_CHARACTERS} characters"})
    yield call.json_result({"clean": not problems, "problems": problems})


async def build(call: RapInvocation, given: JsonObject) -> Messages:
    await asyncio.sleep(given["seconds"])
    yield call.json_result({"status": "built", "seconds": given["seconds"]})


async def explode(_call: RapInvocation, _given: JsonObject) -> Messages:
    raise ToolError("The boiler has no water; fill it and build again")
    yield  # makes this a generator, as every operation is


async def photo(call: RapInvocation, _given: JsonObject) -> Messages:
    items = [
        {"type": "text", "text": "The build machine, seen from above"},
        {"type": "image", "data": PIXEL, "mediaType": "image/png"},
    ]
    yield call.answer("tool_result", content=items)


async def watch(call: RapInvocation, given: JsonObject) -> Messages:
    """A subscription: confirmed first, then its events, of which the last says so."""
    count = int(given.get("events", 3))
    yield call.result(f"Watching the builds (subscription {call.id})", subscription=True)
    for number in range(1, count + 1):
        await asyncio.sleep(given.get("pause_s", 0.05))
        yield call.event(f'{{"build": {number}, "status": "built"}}', associative=True, final=number == count)


async def deploy(accounts: ConsentRecords, call: RapInvocation, given: JsonObject) -> Messages:
    """Goes on by itself once the user has consented."""
    user = call.user_id or call.group_id
    if not accounts.is_connected(user):
        challenge = accounts.challenge(user)
        # RAP wants https here; a demonstration on loopback has no certificate, and callers must allow for that.
        yield call.answer("oauth", auth_url=challenge["url"])
        while (status := accounts.status(challenge["id"])) == "pending":  # noqa: ASYNC110 - people take seconds
            await asyncio.sleep(LOOK_S)
        if status != "completed":
            raise ToolError("The user did not allow the deployment")
    yield call.json_result({"status": "deployed", "target": given["target"]})


async def ask(questions: Questions, call: RapInvocation, _given: JsonObject) -> Messages:
    url, selected = questions.ask(call)
    try:
        yield call.answer(
            "user_choice",
            prompt="The last deployment is slow. What shall become of it?",
            choices=list(CHOICES),
            default=KEEP,
            response_url=url,
        )
        index = await asyncio.wait_for(selected, CHOICE_WAIT_S)
    except TimeoutError:
        raise ToolError("No choice was made in time") from None
    finally:
        selected.cancel()
    yield call.json_result({"choice": CHOICES[index]})


def operations(accounts: ConsentRecords, questions: Questions) -> list[RapOperation]:
    """Everything the toolset offers."""
    source = arguments({"source": {"type": "string", "maxLength": MAX_SOURCE_CHARACTERS}}, "source")
    target = arguments({"target": {"type": "string", "enum": ["staging", "production"]}}, "target")
    seconds = arguments({"seconds": {"type": "number", "minimum": 0, "maximum": MAX_BUILD_S}}, "seconds")
    events = {"type": "integer", "minimum": 1, "maximum": MAX_EVENTS}
    watching = arguments({"events": events, "pause_s": {"type": "number", "minimum": 0, "maximum": 60}})
    harmless = {"readOnly": True, "idempotent": True}
    needs_consent = {"requiresAuth": PROVIDER, "destructive": True}
    slow = {"longRunning": True}
    deploying = "Deploys what was built last, once the user has allowed it."
    asking = "Asks the user what to do with a slow deployment."
    return [
        RapOperation("lint", "Looks for flaws in source text.", source, lint, harmless),
        RapOperation("build", "Builds, for as long as told.", seconds, build, slow),
        RapOperation("deploy", deploying, target, partial(deploy, accounts), needs_consent),
        RapOperation("watch", "Subscribes to the next builds.", watching, watch, {"readOnly": True, **slow}),
        RapOperation("explode", "Always fails.", arguments(), explode, {"idempotent": True}),
        RapOperation("ask", asking, arguments(), partial(ask, questions), slow),
        RapOperation("photo", "Takes a picture of the build machine.", arguments(), photo, harmless),
    ]
