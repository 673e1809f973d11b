"""Breadcrumbs that clients send, and how the server of a scenario writes them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct

from toolgate_conformance.clients.rcrt.scenarios import Event
from toolgate_conformance.clients.scripted import Request
from toolgate_conformance.servers.rcrt.messages import REQUEST, RESPONSE


class StoredCrumb(Struct, frozen=True):
    """A breadcrumb that was stored."""

    id: str
    at_s: float
    draft: Mapping[str, Any]
    is_listed: bool = True

    @property
    def is_request(self) -> bool:
        return is_request(self.draft)


def is_uuid(value: Any) -> bool:
    """Whether a value is the text of a UUID."""
    try:
        return isinstance(value, str) and bool(uuid.UUID(value))
    except ValueError:
        return False


def is_draft(document: Any) -> bool:
    """Whether a document has the members that a breadcrumb needs."""
    if not isinstance(document, dict) or "context" not in document:
        return False
    tags = document.get("tags")
    is_tagged = isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    return is_tagged and isinstance(document.get("title"), str)


def is_request(document: Any) -> bool:
    """Whether a document is meant to request a tool, be it right or wrong."""
    if not isinstance(document, dict) or document.get("schema_name") == RESPONSE:
        return False
    tags = document.get("tags")
    return document.get("schema_name") == REQUEST or (isinstance(tags, list) and "tool:request" in tags)


def token_in(request: Request) -> str:
    """The token of a request: in its header, or in its query if there is no such header."""
    if (header := request.headers.get("authorization")) is not None:
        return header.removeprefix("Bearer ")
    query = parse_qs(request.target.partition("?")[2])
    return (query.get("access_token") or query.get("token") or [""])[0]


def is_json(request: Request) -> bool:
    """Whether the body of a request is declared as JSON."""
    return request.content_type == "application/json"


def now() -> str:
    """The time, as the server writes it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def entry(crumb: StoredCrumb, *, with_context: bool) -> Event:
    """A breadcrumb as an entry of a list."""
    names = ("title", "tags", "schema_name", *(("context",) if with_context else ()))
    return {"id": crumb.id, "version": 1, "updated_at": now(), **{name: crumb.draft.get(name) for name in names}}


def record(crumb: StoredCrumb) -> Event:
    """The whole record of a breadcrumb."""
    names = ("description", "semantic_version", "ttl")
    return entry(crumb, with_context=True) | {name: crumb.draft.get(name) for name in names}
