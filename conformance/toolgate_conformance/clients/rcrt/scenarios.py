"""The scenarios that the kit plays to a client of RCRT: how its server takes requests, and what its runner stores."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolgate_conformance.clients.scripted import Reply
from toolgate_conformance.servers.rcrt.messages import RESPONSE
from toolgate_conformance.servers.rcrt.server import CODE, WORKSPACE

TOOL = "count-sheets"
INPUT = {"shelf": "b-7", "count": 3}
RESULT, OTHER = "kit-result-41 ä€😀", "kit-result-77"  # texts in the right output, and in one that is to be dropped
OUTPUT = {"sheets": 41, "text": RESULT}
ITEMS = [RESULT, 41, None, {"shelf": "b-7"}]  # an output that is no object
FAILURE = "The kit has no more paper"
SOON_S = 0.05  # between two actions of the runner
EARLY_S = 0.6  # by which an event comes before the answer to its request
LATE_S = 2.0
SLOW_S = 1.2  # of a refusal: some clients do not replace a token that is younger than 1 s
AFTERWARDS_S = 1.0  # between two responses, of which the first counts
TEXT = {"content-type": "text/plain; charset=utf-8"}

Event = dict[str, Any]


class ToolRequest(Struct, frozen=True):
    """A request that was stored; `id` is that of the request, or of its breadcrumb if it has none."""

    id: Any
    crumb_id: str

    def response(self, **context: Any) -> Event:
        """The response to it, with the tags that the runner gives it. `context` replaces members."""
        known = {"request_id": self.id, "tool": TOOL, "status": "success", "output": OUTPUT, "execution_time_ms": 7}
        return _crumb(RESPONSE, ["tool:response", f"request:{self.id}", f"request:{self.id}"], known | context)

    def failure(self, error: str) -> Event:
        """A response of failure."""
        context = {"request_id": self.id, "tool": TOOL, "status": "error", "error": error, "execution_time_ms": 0}
        return _crumb(RESPONSE, ["tool:response", f"request:{self.id}"], context)


class Step(Struct, frozen=True):
    """What happens next, after `after_s`: a breadcrumb is stored, further events are sent, or all streams end.

    `copies` is how often the breadcrumb is announced. `is_listed` False: lists lack it, once a stream was opened.
    """

    stored: Mapping[str, Any] | None = None
    copies: int = 1
    is_listed: bool = True
    events: Sequence[Event] = ()
    ends_streams: bool = False
    after_s: float = SOON_S


class Reception(Struct, frozen=True):
    """What becomes of a request: whether it is stored, and its answer, by default 200 with its id after `after_s`.

    `is_keyed`: only if it has an Idempotency-Key; without one it is stored.
    """

    is_stored: bool = True
    reply: Reply | None = None
    after_s: float = 0.0
    is_keyed: bool = False


def _taken(number: int) -> Reception:
    return Reception()


def _result(asked: ToolRequest) -> list[Step]:
    return [Step(asked.response())]


class RcrtScenario(Struct, frozen=True):
    """How the server behaves. `path` is that of its URL; `prefix`, `has_type` and `is_cut` are about its events."""

    steps: Callable[[ToolRequest], Sequence[Step]] = _result
    on_request: Callable[[int], Reception] = _taken
    path: str = ""
    prefix: bytes = b"data: "
    has_type: bool = True
    is_cut: bool = False  # in the middle of characters


def _crumb(schema_name: str, tags: Sequence[str], context: Mapping[str, Any]) -> Event:
    return {"schema_name": schema_name, "title": "Kit", "tags": [WORKSPACE, *tags], "context": dict(context)}


def tool() -> Event:
    """The breadcrumb that describes the tool."""
    properties = {"shelf": {"type": "string"}, "count": {"type": "integer"}}
    context = {"name": TOOL, "input_schema": {"type": "object", "properties": properties}, "output_schema": {}}
    described = {"description": "Counts sheets.", "semantic_version": "1.0.0"}
    return _crumb(CODE, ["tool", f"tool:{TOOL}", "approved"], context) | described


def _heard(asked: ToolRequest) -> list[Step]:
    return [Step(asked.response(), is_listed=False)]


def _first(taken: Reception) -> Callable[[int], Reception]:
    """Takes the first request in a way of its own, and stores each later one."""
    return lambda number: taken if number == 1 else Reception()


def _noise(asked: ToolRequest) -> list[Step]:
    """Events that clients need not know; RCRT sends those about tags and approval without schema and context."""
    known: Event = {"type": "breadcrumb.updated", "breadcrumb_id": str(uuid.uuid4())}
    partial = [known | {"tags_added": 1}, known | {"action": "approved"}, known | {"context_merged": True}]
    nulls: Event = dict.fromkeys(("schema_name", "tags", "context"))
    events: list[Event] = [
        {"type": "kit.news", "text": OTHER},
        *partial,
        known | nulls,
        {"type": "ping", "ts": "now"},
        {},
    ]
    return [Step(events=events), *_heard(asked)]


def _other_schemas(asked: ToolRequest) -> list[Step]:
    """Breadcrumbs that name the request, and are no response to it."""
    members = {"request_id": asked.id, "requestId": asked.id, "status": "success", "output": {"text": OTHER}}
    names = ("kit.note.v1", "agent.response.v1")
    return [*(Step(_crumb(name, [f"request:{asked.id}"], members)) for name in names), *_result(asked)]


def _foreign(asked: ToolRequest) -> list[Step]:
    other = ToolRequest(f"kit-{uuid.uuid4()}", str(uuid.uuid4()))
    return [Step(other.response(output={"text": OTHER})), Step(asked.response(), after_s=0.3)]


def _twice(asked: ToolRequest) -> list[Step]:
    second = Step(asked.response(output={"text": OTHER}), is_listed=False, after_s=0.0)
    return [Step(asked.response(), copies=2), second]


def _gap(asked: ToolRequest) -> list[Step]:
    return [Step(ends_streams=True), Step(asked.response(), copies=0, after_s=0.0)]


def _failed(asked: ToolRequest) -> list[Step]:
    return [Step(asked.failure(f"Error: Deno exited with code 1\nTool Error: {FAILURE}\nStack: Error: {FAILURE}"))]


def _unknown_tool(asked: ToolRequest) -> list[Step]:
    """Two runners on one workspace. The first does not know the tool: its response lacks the tag of the request."""
    error = asked.failure(f"Tool {TOOL} not found. Only tool.code.v1 tools can be executed.")
    untagged = error | {"tags": [WORKSPACE, "tool:response", "error"]}
    return [Step(untagged), Step(asked.response(), after_s=AFTERWARDS_S)]


def _older(asked: ToolRequest) -> list[Step]:
    context = {"requestId": asked.id, "tool": TOOL, "result": OUTPUT, "executionTime": 7}
    return [Step(asked.response() | {"context": context}, is_listed=False)]


SCENARIOS: Mapping[str, RcrtScenario] = {
    "plain": RcrtScenario(),
    "again": RcrtScenario(),
    "prefixed": RcrtScenario(path="/kit/v1/"),
    "expired": RcrtScenario(
        on_request=_first(Reception(False, Reply(401, TEXT, b"invalid token: ExpiredSignature", after_s=SLOW_S)))
    ),
    "late": RcrtScenario(steps=lambda asked: [Step(asked.response(), after_s=LATE_S)]),
    "lost-answer": RcrtScenario(on_request=_first(Reception(reply=Reply(is_reset=True)))),
    "bad-gateway": RcrtScenario(on_request=_first(Reception(reply=Reply(502, TEXT, b"Bad Gateway")))),
    "duplicate": RcrtScenario(
        on_request=_first(Reception(reply=Reply(409, TEXT, b"duplicate idempotency key"), is_keyed=True))
    ),
    "not-stored": RcrtScenario(
        on_request=_first(Reception(False, Reply(500, TEXT, b"error returned from database: deadlock detected")))
    ),
    "refused": RcrtScenario(on_request=lambda number: Reception(False, Reply(422, TEXT, b"missing field `kit`"))),
    "early": RcrtScenario(
        steps=lambda asked: [Step(asked.response(), after_s=0.0)],
        on_request=lambda number: Reception(after_s=EARLY_S),
    ),
    "noise": RcrtScenario(_noise),
    "other-schemas": RcrtScenario(_other_schemas),
    "foreign": RcrtScenario(_foreign),
    "twice": RcrtScenario(_twice),
    "pieces": RcrtScenario(_heard, is_cut=True),
    "no-type": RcrtScenario(_heard, has_type=False),
    "no-space": RcrtScenario(_heard, prefix=b"data:"),
    "gap": RcrtScenario(_gap),
    "no-event": RcrtScenario(steps=lambda asked: [Step(asked.response(), copies=0)]),
    "failed": RcrtScenario(_failed),
    "unknown-tool": RcrtScenario(_unknown_tool),
    "items": RcrtScenario(steps=lambda asked: [Step(asked.response(output=ITEMS))]),
    "older": RcrtScenario(_older),
}
