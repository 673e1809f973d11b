"""The operations of the RAP demonstration server: a build pipeline that reports back in every way RAP knows.

Follows the Reactive Agent Protocol: Tool Result, OAuth, User Choice, Subscription Events.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

from gateway.demo.consent import Consent
from gateway.demo.rap_calls import Invocation, Messages, Operation, arguments
from gateway.demo.toolbox import Json, JsonObject, RefusedError, ToolError

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


class Questions:
    """Choices that wait for a user, by the unguessable end of the address they are answered at."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._open: dict[str, tuple[str, asyncio.Future[int]]] = {}

    def ask(self, call: Invocation) -> tuple[str, asyncio.Future[int]]:
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
            raise RefusedError("There is no such question", status=404)
        index = document.get("selected")
        if type(index) is not int or index not in range(len(CHOICES)):
            # The flow has failed, and so must the call (User Choice, Error Handling).
            selected.set_exception(ToolError("The selection is not one of the choices"))
        else:
            selected.set_result(index)


async def lint(call: Invocation, given: JsonObject) -> Messages:
    problems: list[JsonObject] = []
    for number, line in enumerate(given["source"].splitlines(), 1):
        if line != line.rstrip():
            problems.append({"line": number, "problem": "trailing whitespace"})
        if len(line) > MAX_LINE_CHARACTERS:
            problems.append({"line": number, "problem": f"longer than {MAX_LINE_CHARACTERS} characters"})
    yield call.json_result({"clean": not problems, "problems": problems})


async def build(call: Invocation, given: JsonObject) -> Messages:
    await asyncio.sleep(given["seconds"])
    yield call.json_result({"status": "built", "seconds": given["seconds"]})


async def explode(_call: Invocation, _given: JsonObject) -> Messages:
    raise ToolError("The boiler has no water; fill it and build again")
    yield  # makes this a generator, as every operation is


async def photo(call: Invocation, _given: JsonObject) -> Messages:
    items = [
        {"type": "text", "text": "The build machine, seen from above"},
        {"type": "image", "data": PIXEL, "mediaType": "image/png"},
    ]
    yield call.answer("tool_result", content=items)


async def watch(call: Invocation, given: JsonObject) -> Messages:
    """A subscription: confirmed first, then its events, of which the last says so."""
    count = int(given.get("events", 3))
    yield call.result(f"Watching the builds (subscription {call.id})", subscription=True)
    for number in range(1, count + 1):
        await asyncio.sleep(given.get("pause_s", 0.05))
        yield call.event(f'{{"build": {number}, "status": "built"}}', associative=True, final=number == count)


async def deploy(accounts: Consent, call: Invocation, given: JsonObject) -> Messages:
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


async def ask(questions: Questions, call: Invocation, _given: JsonObject) -> Messages:
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


def operations(accounts: Consent, questions: Questions) -> list[Operation]:
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
        Operation("lint", "Looks for flaws in source text.", source, lint, harmless),
        Operation("build", "Builds, for as long as told.", seconds, build, slow),
        Operation("deploy", deploying, target, partial(deploy, accounts), needs_consent),
        Operation("watch", "Subscribes to the next builds.", watching, watch, {"readOnly": True, **slow}),
        Operation("explode", "Always fails.", arguments(), explode, {"idempotent": True}),
        Operation("ask", asking, arguments(), partial(ask, questions), slow),
        Operation("photo", "Takes a picture of the build machine.", arguments(), photo, harmless),
    ]
