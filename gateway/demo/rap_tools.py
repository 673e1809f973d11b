"""The operations of the RAP demonstration server: a build pipeline that reports back in every way RAP knows.

Follows the Reactive Agent Protocol: Tool Result, OAuth, User Choice, Subscription Events.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from gateway.demo.consent import CHALLENGE_LIFETIME_S, Consent
from gateway.demo.rap_calls import Invocation, Message, Operation, Run, arguments
from gateway.demo.toolbox import Json, JsonObject, RefusedError, ToolError

MAX_BUILD_S = 600
MAX_EVENTS = 50
MAX_SOURCE_CHARACTERS = 20_000
MAX_LINE_CHARACTERS = 120
MAX_QUESTIONS = 1000  # open ones, over all calls
CHOICE_WAIT_S = 600.0  # the time a person may take; RAP wants it documented
PROVIDER = "demo-deploy"
CHOICES = ("Roll back", "Keep")
KEEP = 1
# One grey pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="


class Accounts(Consent):
    """Consent whose answers can be waited for: here the tool goes on by itself, nobody repeats the call."""

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self._answered: dict[str, set[asyncio.Event]] = {}

    def settle(self, challenge_id: str, *, connect: bool) -> None:
        super().settle(challenge_id, connect=connect)
        for answered in self._answered.get(challenge_id, ()):
            answered.set()

    async def wait(self, challenge_id: str) -> str:
        """Waits for the user and returns `completed` or `failed`."""
        answered = asyncio.Event()
        waiting = self._answered.setdefault(challenge_id, set())
        waiting.add(answered)
        try:
            if self.status(challenge_id) == "pending":
                await asyncio.wait_for(answered.wait(), CHALLENGE_LIFETIME_S)
        except TimeoutError:
            return "failed"
        finally:
            waiting.discard(answered)
            if not waiting:
                self._answered.pop(challenge_id, None)
        return self.status(challenge_id)


@dataclass(frozen=True)
class _Question:
    call_id: str
    count: int
    selected: asyncio.Future[int]


class Questions:
    """Choices that wait for a user, by the unguessable end of the address they are answered at."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._open: dict[str, _Question] = {}

    def ask(self, call: Invocation, count: int) -> tuple[str, asyncio.Future[int]]:
        """Opens a question with `count` answers and returns its `response_url` and what will be selected."""
        if len(self._open) >= MAX_QUESTIONS:
            raise ToolError("Too many questions are open")
        key = secrets.token_urlsafe(24)
        selected: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._open[key] = _Question(call.id, count, selected)
        selected.add_done_callback(lambda _: self._open.pop(key, None))
        return f"{self._base_url}/user_choice_response/{key}", selected

    def answer(self, key: str, document: Json) -> None:
        """Takes a selection; a second one finds nothing to answer. Raises RefusedError."""
        question = self._open.get(key)
        if question is None or not isinstance(document, dict) or document.get("id") != question.call_id:
            raise RefusedError("There is no such question", status=404)
        index = document.get("selected")
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < question.count:
            # The flow has failed, and so must the call (User Choice, Error Handling).
            question.selected.set_exception(ToolError("The selection is not one of the choices"))
        else:
            question.selected.set_result(index)


async def lint(call: Invocation) -> AsyncGenerator[Message, None]:
    problems: list[JsonObject] = []
    for number, line in enumerate(call.arguments["source"].splitlines(), 1):
        if line != line.rstrip():
            problems.append({"line": number, "problem": "trailing whitespace"})
        if len(line) > MAX_LINE_CHARACTERS:
            problems.append({"line": number, "problem": f"longer than {MAX_LINE_CHARACTERS} characters"})
    yield call.json_result({"clean": not problems, "problems": problems})


async def build(call: Invocation) -> AsyncGenerator[Message, None]:
    await asyncio.sleep(call.arguments["seconds"])
    yield call.json_result({"status": "built", "seconds": call.arguments["seconds"]})


async def explode(_call: Invocation) -> AsyncGenerator[Message, None]:
    raise ToolError("The boiler has no water; fill it and build again")
    yield  # makes this a generator, as every operation is


async def photo(call: Invocation) -> AsyncGenerator[Message, None]:
    items = [
        {"type": "text", "text": "The build machine, seen from above"},
        {"type": "image", "data": PIXEL, "mediaType": "image/png"},
    ]
    yield call.answer("tool_result", content=items)


async def watch(call: Invocation) -> AsyncGenerator[Message, None]:
    """A subscription: confirmed first, then its events, of which the last says so."""
    count = int(call.arguments.get("events", 3))
    yield call.result(f"Watching the builds (subscription {call.id})", subscription=True)
    for number in range(1, count + 1):
        await asyncio.sleep(call.arguments.get("pause_s", 0.05))
        yield call.event(f'{{"build": {number}, "status": "built"}}', associative=True, final=number == count)


def deployer(accounts: Accounts) -> Run:
    async def deploy(call: Invocation) -> AsyncGenerator[Message, None]:
        user = call.user_id or call.group_id
        if not accounts.is_connected(user):
            challenge = accounts.challenge(user)
            # RAP wants https here; a demonstration on loopback has no certificate, and callers must allow for that.
            yield call.answer("oauth", auth_url=challenge["url"])
            if await accounts.wait(challenge["id"]) != "completed":
                raise ToolError("The user did not allow the deployment")
        yield call.json_result({"status": "deployed", "target": call.arguments["target"]})

    return deploy


def asker(questions: Questions) -> Run:
    async def ask(call: Invocation) -> AsyncGenerator[Message, None]:
        url, selected = questions.ask(call, len(CHOICES))
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
            raise ToolError("Nobody made a choice in time") from None
        finally:
            selected.cancel()
        yield call.json_result({"choice": CHOICES[index]})

    return ask


def operations(accounts: Accounts, questions: Questions) -> list[Operation]:
    """Everything the toolset offers."""
    source = {"type": "string", "maxLength": MAX_SOURCE_CHARACTERS}
    target = {"type": "string", "enum": ["staging", "production"]}
    seconds = {"type": "number", "minimum": 0, "maximum": MAX_BUILD_S}
    events = {"type": "integer", "minimum": 1, "maximum": MAX_EVENTS}
    pause = {"type": "number", "minimum": 0, "maximum": 60}
    harmless = {"readOnly": True, "idempotent": True}
    needs_consent = {"requiresAuth": PROVIDER, "destructive": True}
    slow = {"longRunning": True}
    return [
        Operation("lint", "Looks for flaws in source text.", arguments({"source": source}, "source"), lint, harmless),
        Operation("build", "Builds, for as long as told.", arguments({"seconds": seconds}, "seconds"), build, slow),
        Operation(
            "deploy",
            "Deploys what was built last, once the user has allowed it.",
            arguments({"target": target}, "target"),
            deployer(accounts),
            needs_consent,
        ),
        Operation(
            "watch",
            "Subscribes to the next builds.",
            arguments({"events": events, "pause_s": pause}),
            watch,
            {"readOnly": True, **slow},
        ),
        Operation("explode", "Always fails.", arguments(), explode, {"idempotent": True}),
        Operation("ask", "Asks the user what to do with a slow deployment.", arguments(), asker(questions), slow),
        Operation("photo", "Takes a picture of the build machine.", arguments(), photo, harmless),
    ]
