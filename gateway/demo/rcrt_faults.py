"""What the runner of the RCRT demonstration server can do wrong on order, by the name of a tool.

Each is a behaviour seen on real runners and brokers, or one that their guarantees allow. Faults of the stream, of
tokens and of breadcrumbs stand with what they happen to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.demo.toolbox import Json, JsonObject

UNSIGNALLED_CHARACTERS = 1_200_000  # stored, but too large for an event
REFUSED_CHARACTERS = 2_200_000  # too large to be stored
BIG_INTEGER = 2**63 + 1

# What becomes of the output of a tool that has run.
OUTPUTS: Mapping[str, Callable[[Json], Json]] = {
    "big_output": lambda _: {"text": "x" * UNSIGNALLED_CHARACTERS},
    "refused_output": lambda _: {"text": "x" * REFUSED_CHARACTERS},
    "list_output": lambda _: [1, 2, 3],
    "scalar_output": lambda _: 42,
    "null_output": lambda _: None,
    "big_integer": lambda _: {"count": BIG_INTEGER},
    "unicode_output": lambda _: {"text": "Grüße, 世界 🎛"},
    "failure_inside": lambda _: {"success": False, "error": "Requires net access"},
}


def _without(document: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in document.items() if name not in names}


def _edited(edit: Callable[[JsonObject], JsonObject]) -> Callable[[JsonObject], JsonObject]:
    return lambda draft: {**draft, "context": edit(draft["context"])}


def _older(context: JsonObject) -> JsonObject:
    """As older documents have it."""
    return {
        "requestId": context["request_id"],
        "tool": context["tool"],
        "result": context.get("output"),
        "executionTime": context.get("execution_time_ms"),
    }


def _unparsable(context: JsonObject) -> JsonObject:
    """What happens when a process ends before its pipe is drained: the tool has run."""
    error = "Error: Failed to parse tool output: Unexpected end of JSON input"
    return {**_without(context, "output", "metadata"), "status": "error", "error": error, "execution_time_ms": 0}


# What becomes of the response before it is stored.
CONTEXTS: Mapping[str, Callable[[JsonObject], JsonObject]] = {
    "older_shape": _edited(_older),
    "unparsable_output": _edited(_unparsable),
    "error_in_output": _edited(
        lambda context: {**context, "status": "error", "output": {"error": "The rate limit is exceeded"}}
    ),
    "no_status": _edited(lambda context: _without(context, "status")),
    "unknown_status": _edited(lambda context: {**context, "status": "running"}),
    "no_output": _edited(lambda context: _without(context, "output")),
    "no_request_id": _edited(lambda context: _without(context, "request_id")),
    "other_request_id": lambda draft: {
        **_edited(lambda context: {**context, "request_id": f"{context['request_id']}-other"})(draft),
        "tags": [tag for tag in draft["tags"] if not tag.startswith("request:")],
    },
    "untagged": lambda draft: {**draft, "tags": [tag for tag in draft["tags"] if not tag.startswith("request:")]},
    "context_not_an_object": lambda draft: {**draft, "context": "done"},
}


def _partial(event: JsonObject) -> list[JsonObject]:
    """As the newer edition announces a merge."""
    names = ("type", "breadcrumb_id", "owner_id")
    return [{**{name: event[name] for name in names}, "context_merged": True}]


# What becomes of the event about the response, which is stored in any case.
ANNOUNCEMENTS: Mapping[str, Callable[[JsonObject], list[JsonObject]]] = {
    "drop_event": lambda _: [],
    "duplicate_event": lambda event: [event, event],
    "partial_event": _partial,
    "event_without_context": lambda event: [_without(event, "context")],
    "event_without_type": lambda event: [_without(event, "type")],
    "created_event": lambda event: [{**event, "type": "breadcrumb.created"}],
    "malformed_events": lambda event: [
        {"owner_id": event["owner_id"]},
        {**event, "tags": None, "context": []},
        {**event, "breadcrumb_id": 7, "schema_name": 7},
        event,
    ],
}

RUNNER_FAULTS = {
    *OUTPUTS,
    *CONTEXTS,
    *ANNOUNCEMENTS,
    "absent",  # nobody acts on the request
    "late",  # the response takes `seconds` longer
    "duplicate_response",  # two breadcrumbs, as of two runners
}
