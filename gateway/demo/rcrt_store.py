"""Breadcrumbs in memory: versioned records with tags, of which every change is announced once.

Follows the REST surface of RCRT as its server has it in November 2025: defaults, order of lists, versions, expiry.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

from gateway.demo.toolbox import Json, JsonObject

MAX_BREADCRUMBS = 10_000
MAX_TOTAL_BYTES = 64 * 1024 * 1024  # of the latest contexts; whichever limit is met first, the longest untouched go
MAX_KEYS = 10_000  # idempotency keys; the real server keeps them for ever
MAX_HISTORY = 5  # versions kept of one breadcrumb
SWEEP_INTERVAL = timedelta(seconds=30)  # what has expired stays readable until then
VISIBILITIES = {"public": "Public", "team": "Team", "private": "Private"}
SENSITIVITIES = {"low": "Low", "pii": "Pii", "secret": "Secret"}
DRAFT_FIELDS = ("title", "context", "tags", "schema_name", "description", "semantic_version", "llm_hints", "ttl")


def now() -> datetime:
    return datetime.now(UTC)


def timestamp() -> str:
    return now().isoformat(timespec="microseconds").replace("+00:00", "Z")


class TooLargeError(Exception):
    """A context beyond what the server takes in one body."""


@dataclass(frozen=True)
class Actor:
    """Who acts: a tenant, one of its agents, and that agent's roles."""

    owner_id: str
    agent_id: str
    roles: tuple[str, ...]


@dataclass
class Breadcrumb:
    """One record; `fields` has what its author wrote."""

    owner_id: str
    created_by: str
    updated_by: str
    fields: JsonObject
    pinned: bool = False
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    version: int = 1
    created_at: str = ""
    updated_at: str = ""
    size_bytes: int = 0
    history: deque[JsonObject] = field(default_factory=lambda: deque(maxlen=MAX_HISTORY))

    @property
    def context(self) -> Json:
        return self.fields["context"]

    @property
    def tags(self) -> list[str]:
        return list(self.fields["tags"])

    @property
    def schema_name(self) -> str | None:
        return self.fields.get("schema_name")

    def full(self) -> JsonObject:
        written = {name: self.fields.get(name) for name in DRAFT_FIELDS}
        return {
            "id": self.id,
            "owner_id": self.owner_id,
            **written,
            "visibility": VISIBILITIES.get(self.fields.get("visibility", ""), "Team"),
            "sensitivity": SENSITIVITIES.get(self.fields.get("sensitivity", ""), "Low"),
            "version": self.version,
            "checksum": hashlib.sha256(_encode(self.context)).hexdigest(),
            **dict.fromkeys(("ttl_type", "ttl_config", "ttl_source", "embedding")),
            "read_count": 0,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "created_by": self.created_by,
            "updated_by": self.updated_by,
            "size_bytes": self.size_bytes,
        }

    def view(self) -> JsonObject:
        """What language models are shown; of a tool everything but its code."""
        names = ("title", "description", "semantic_version", "context", "tags", "schema_name", "llm_hints")
        shown = {"id": self.id, **{name: self.fields.get(name) for name in names}}
        if self.schema_name == "tool.code.v1" and isinstance(self.context, dict):
            shown["context"] = {name: value for name, value in self.context.items() if name != "code"}
        return {**shown, "version": self.version, "updated_at": self.updated_at}

    def item(self, *, with_context: bool) -> JsonObject:
        """An entry of a list."""
        entry = {
            "id": self.id,
            "title": self.fields["title"],
            "tags": self.tags,
            "schema_name": self.schema_name,
            "version": self.version,
            "updated_at": self.updated_at,
        }
        if not with_context:
            return entry
        # The real query does not select the last three.
        return {**entry, "context": self.context, "description": None, "semantic_version": None, "llm_hints": None}

    def event(self) -> JsonObject:
        """A new breadcrumb is announced as updated too; only its version 1 tells."""
        return {
            "breadcrumb_id": self.id,
            "owner_id": self.owner_id,
            "version": self.version,
            "tags": self.tags,
            "schema_name": self.schema_name,
            "updated_at": self.updated_at,
            "context": self.context,
            "type": "breadcrumb.updated",
        }


Listener = Callable[[JsonObject], None]


class Store:
    """All breadcrumbs, the latest changed last, and whoever wants to hear of changes."""

    def __init__(self, max_context_bytes: int, clock: Callable[[], datetime] = now) -> None:
        self._max_context_bytes = max_context_bytes
        self._clock = clock
        self._breadcrumbs: OrderedDict[str, Breadcrumb] = OrderedDict()
        self._bytes = 0
        self._keys: OrderedDict[str, None] = OrderedDict()
        self._swept_at = clock()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def announce(self, event: JsonObject) -> None:
        for listener in self._listeners:
            listener(event)

    def burn(self, key: str) -> bool:
        """Uses up an idempotency key; false if it was used before, by anybody."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > MAX_KEYS:
            self._keys.popitem(last=False)
        return True

    def create(self, draft: JsonObject, actor: Actor, *, announce: bool = True, pinned: bool = False) -> Breadcrumb:
        """Raises: TooLargeError."""
        breadcrumb = Breadcrumb(actor.owner_id, actor.agent_id, actor.agent_id, dict(draft), pinned)
        self._write(breadcrumb, actor)
        breadcrumb.created_at = breadcrumb.updated_at
        if announce:
            self.announce(breadcrumb.event())
        return breadcrumb

    def update(self, breadcrumb: Breadcrumb, changes: JsonObject, actor: Actor, *, announce: bool = True) -> None:
        """Raises: TooLargeError."""
        breadcrumb.fields = {**breadcrumb.fields, **changes}
        breadcrumb.version += 1
        self._write(breadcrumb, actor)
        if announce:
            self.announce(breadcrumb.event())

    def get(self, breadcrumb_id: str) -> Breadcrumb | None:
        self._sweep()
        return self._breadcrumbs.get(breadcrumb_id)

    def delete(self, breadcrumb_id: str) -> bool:
        """Nobody hears of it."""
        gone = self._breadcrumbs.pop(breadcrumb_id, None)
        self._bytes -= gone.size_bytes if gone else 0
        return gone is not None

    def select(
        self, tag: str | None = None, schema_name: str | None = None, limit: int | None = None, offset: int = 0
    ) -> list[Breadcrumb]:
        """The latest changed first, of all tenants."""
        self._sweep()
        return list(islice(self._matching(tag, schema_name), offset, None if limit is None else offset + limit))

    def _matching(self, tag: str | None, schema_name: str | None) -> Iterator[Breadcrumb]:
        for breadcrumb in reversed(self._breadcrumbs.values()):
            if tag is not None and tag not in breadcrumb.fields["tags"]:
                continue
            if schema_name is None or breadcrumb.schema_name == schema_name:
                yield breadcrumb

    def _write(self, breadcrumb: Breadcrumb, actor: Actor) -> None:
        size = len(_encode(breadcrumb.context))
        if size > self._max_context_bytes:
            raise TooLargeError
        self._bytes += size - breadcrumb.size_bytes
        breadcrumb.size_bytes = size
        breadcrumb.updated_at, breadcrumb.updated_by = timestamp(), actor.agent_id
        version = {"version": breadcrumb.version, "context": breadcrumb.context}
        breadcrumb.history.appendleft(
            {**version, "updated_at": breadcrumb.updated_at, "updated_by": breadcrumb.updated_by}
        )
        self._breadcrumbs[breadcrumb.id] = breadcrumb
        self._breadcrumbs.move_to_end(breadcrumb.id)
        self._make_room()

    def _make_room(self) -> None:
        while len(self._breadcrumbs) > MAX_BREADCRUMBS or self._bytes > MAX_TOTAL_BYTES:
            self.delete(next(key for key, breadcrumb in self._breadcrumbs.items() if not breadcrumb.pinned))

    def _sweep(self) -> None:
        if (at := self._clock()) - self._swept_at < SWEEP_INTERVAL:
            return
        self._swept_at = at
        expiring = [(key, crumb.fields["ttl"]) for key, crumb in self._breadcrumbs.items() if crumb.fields.get("ttl")]
        for key, ttl in expiring:
            if datetime.fromisoformat(ttl) <= at:
                self.delete(key)


def _encode(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
