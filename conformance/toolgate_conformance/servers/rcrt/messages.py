"""Requests for tools and their responses, as breadcrumbs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolgate_conformance.checks import Exchange, UnfitError, shown
from toolgate_conformance.http import Answer
from toolgate_conformance.servers.rcrt.events import Event

REQUEST, RESPONSE = "tool.request.v1", "tool.response.v1"


class StoredRequest(Struct, frozen=True):
    """A request for a tool that was stored."""

    request_id: str
    crumb_id: str
    answer: Answer


class Response(Struct, frozen=True):
    """The response to a request."""

    crumb_id: str
    tags: Sequence[Any]
    context: Mapping[str, Any]
    exchange: Exchange

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with the request and the response unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)


def answers(asked: StoredRequest, crumb: Event) -> bool:
    """Whether an event or a list entry is the response to a request: by its context, else by its tags."""
    if crumb.get("schema_name") != RESPONSE:
        return False
    context, tags = crumb.get("context"), crumb.get("tags")
    named = context.get("request_id", context.get("requestId")) if isinstance(context, dict) else None
    tag = f"request:{asked.request_id}"
    return named == asked.request_id or (named is None and isinstance(tags, list) and tag in tags)


def response_in(asked: StoredRequest, crumb: Event) -> Response:
    """Reads a response out of an event or a list entry; the latter with its id as `breadcrumb_id`."""
    context, tags = crumb.get("context"), crumb.get("tags")
    came = f"{asked.answer.exchange.came}\n\n{json.dumps(crumb, ensure_ascii=False)}"
    return Response(
        crumb_id=str(crumb.get("breadcrumb_id")),
        tags=tags if isinstance(tags, list) else [],
        context=context if isinstance(context, dict) else {},
        exchange=Exchange(asked.answer.exchange.sent, shown(came)),
    )
