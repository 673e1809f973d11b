"""The scenarios that the kit plays to a RAP runtime: how its tool server acknowledges calls, and what it posts back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from toolgate_conformance.clients.scripted import Reply

TOOL = "count_sheets"
INPUT = {"shelf": "b-7", "count": 3}
RESULT, OTHER = "kit-result-41", "kit-result-77"  # the text of the right result, and of one that is to be dropped
EVENT = "kit-event-5"  # the text of an event of the subscription
FAILURE = "Error: The kit has no more paper"
AUTH_URL = "https://consent.kit.example/authorize?state=kit"
CHOICES, DEFAULT = ("Throw away", "Keep"), 1
SOON_S = 0.05  # between an acknowledgement and the first callback
EARLY_S = 0.6  # by which a callback comes before the acknowledgement
LATE_S = 2.0
INTERRUPT_S = 0.5  # after the invocation, when the acknowledgement has been read
READING_S = 2.0  # for which the events of a subscription may be read
HELD_S = 6.0  # for which a notice is not answered
ELSEWHERE_ID = "kit-call-of-nobody"


class ReceivedInvocation(Struct, frozen=True):
    """An invocation that was received; `number` counts from 1, and `server_url` is where the runtime found the tool."""

    number: int
    members: Mapping[str, Any]
    server_url: str

    def message(self, kind: str, **members: Any) -> dict[str, Any]:
        """A message about this call. `members` are added, or replace those that name the call."""
        named = {name: self.members.get(name) for name in ("group_id", "id", "call_id")}
        return {"type": kind, **named, **members}

    def result(self, text: str = RESULT, **members: Any) -> dict[str, Any]:
        """The result of this call."""
        return self.message("tool_result", text=text, **members)

    def confirmation(self) -> dict[str, Any]:
        """The result of a call that has opened a subscription."""
        return self.result(subscription=True)

    def event(self, text: str = EVENT, **members: Any) -> dict[str, Any]:
        """An event of the subscription that this call opens."""
        named = {"group_id": self.members.get("group_id"), "tool_call_id": self.members.get("id")}
        return {"type": "subscription_event", **named, "text": text, "associative": True, **members}


class Post(Struct, frozen=True):
    """A callback: `name` for reports, `after_s` the pause before it; `is_guess` sends it to an altered URL."""

    name: str
    message: Any
    after_s: float = SOON_S
    is_guess: bool = False


def _result(call: ReceivedInvocation) -> list[Post]:
    return [Post("result", call.result())]


def _nothing(call: ReceivedInvocation) -> list[Post]:
    return []


def _taken(number: int) -> Reply:
    return Reply(200)


def _tool(**members: Any) -> dict[str, Any]:
    properties = {"shelf": {"type": "string"}, "count": {"type": "integer"}}
    schema = {"type": "object", "properties": properties}
    return {"name": TOOL, "description": "Counts sheets.", "inputSchema": schema, **members}


class RapScenario(Struct, frozen=True):
    """How the tool server behaves. `path` is that of the URL that the runtime is given.

    The command is interrupted `interrupt_s` seconds after the invocation. `on_notice` answers cancellations and
    closures of threads, and the first cancellation is followed by callbacks `after_cancel`.
    """

    tools: Sequence[Mapping[str, Any]] = field(default_factory=lambda: [_tool()])
    on_call: Callable[[int], Reply] = _taken
    posts: Callable[[ReceivedInvocation], Sequence[Post]] = _result
    path: str = ""
    interrupt_s: float | None = None
    on_notice: Reply = Reply(200)
    after_cancel: Callable[[ReceivedInvocation], Sequence[Post]] = _nothing


def _first(reply: Reply) -> Callable[[int], Reply]:
    """Answers the first invocation in a way of its own, and accepts each later one."""
    return lambda number: reply if number == 1 else Reply(200)


def _foreign(**members: str) -> Callable[[ReceivedInvocation], list[Post]]:
    return lambda call: [Post("foreign", call.result(OTHER, **members)), Post("result", call.result(), 0.3)]


def _twice(call: ReceivedInvocation) -> list[Post]:
    return [Post("result", call.result()), *(Post("again", call.result(text), 0.0) for text in (RESULT, OTHER))]


def _oauth(call: ReceivedInvocation) -> list[Post]:
    return [Post("oauth", call.message("oauth", auth_url=AUTH_URL)), Post("result", call.result(), 1.0)]


def _choice(call: ReceivedInvocation) -> list[Post]:
    asked = {"prompt": "What about the old sheets?", "choices": list(CHOICES), "default": DEFAULT}
    message = call.message("user_choice", **asked, response_url=f"{call.server_url}/choice")
    return [Post("choice", message), Post("result", call.result(), 1.0)]


def _foreign_events(call: ReceivedInvocation) -> list[Post]:
    others = ({"tool_call_id": ELSEWHERE_ID}, {"group_id": ELSEWHERE_ID})
    foreign = [Post("foreign", call.event(OTHER, **members), 0.0) for members in others]
    return [Post("result", call.confirmation()), *foreign, Post("event", call.event(final=True), 0.0)]


def _ended(call: ReceivedInvocation) -> list[Post]:
    events = (call.event(final=True), call.event(OTHER))
    return [Post("result", call.confirmation()), *(Post("event", each, 0.0) for each in events)]


SCENARIOS: Mapping[str, RapScenario] = {
    "plain": RapScenario(),
    "again": RapScenario(),
    "prefixed": RapScenario(path="/kit/v1/"),
    "unfit-toolset": RapScenario([_tool(), {"name": "kit_other", "inputSchema": {"type": "object"}}]),
    "early": RapScenario(
        on_call=lambda number: Reply(200, after_s=EARLY_S),
        posts=lambda call: [Post("result", call.result(), 0.0)],
    ),
    "late": RapScenario(posts=lambda call: [Post("result", call.result(), LATE_S)]),
    "foreign-id": RapScenario(posts=_foreign(id=ELSEWHERE_ID)),
    "foreign-group": RapScenario(posts=_foreign(group_id=ELSEWHERE_ID)),
    "guessed": RapScenario(
        posts=lambda call: [Post("guess", call.result(OTHER), is_guess=True), Post("result", call.result(), 0.3)]
    ),
    "unknown-type": RapScenario(
        posts=lambda call: [Post("unknown", call.message("kit_news", text=OTHER)), Post("result", call.result(), 0.3)]
    ),
    "view": RapScenario(
        posts=lambda call: [
            Post("view", call.message("view_update", view_type="kit", content={"text": OTHER})),
            Post("result", call.result(), 0.3),
        ]
    ),
    "twice": RapScenario(posts=_twice),
    "content": RapScenario(
        posts=lambda call: [Post("result", call.result(OTHER, content=[{"type": "text", "text": RESULT}]))]
    ),
    "failed": RapScenario(posts=lambda call: [Post("result", call.result(FAILURE))]),
    "oauth": RapScenario(posts=_oauth),
    "choice": RapScenario(posts=_choice),
    "refused": RapScenario(on_call=lambda number: Reply(400), posts=_nothing),
    "busy": RapScenario(
        [_tool(annotations={"readOnly": True, "idempotent": True})],
        on_call=_first(Reply(503)),
        posts=lambda call: _result(call) if call.number > 1 else [],
    ),
    "lost-ack": RapScenario(
        on_call=_first(Reply(is_reset=True)), posts=lambda call: [Post("result", call.result(), 0.5)]
    ),
    "early-event": RapScenario(
        posts=lambda call: [
            Post("early", call.event()),
            Post("result", call.confirmation(), 0.3),
            Post("event", call.event(final=True)),
        ]
    ),
    "foreign-event": RapScenario(posts=_foreign_events),
    "ended": RapScenario(posts=_ended),
    "subscription": RapScenario(
        posts=lambda call: [Post("result", call.confirmation()), Post("event", call.event())], interrupt_s=READING_S
    ),
    "interrupted": RapScenario(
        posts=_nothing,
        path="/kit/v1/",
        interrupt_s=INTERRUPT_S,
        on_notice=Reply(200, after_s=0.5),
        after_cancel=lambda call: [Post("late", call.result(), 0.0)],
    ),
    "notice-refused": RapScenario(posts=_nothing, interrupt_s=INTERRUPT_S, on_notice=Reply(503)),
    "notice-held": RapScenario(posts=_nothing, interrupt_s=INTERRUPT_S, on_notice=Reply(200, after_s=HELD_S)),
}
