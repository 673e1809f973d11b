"""What one tool server offers, judged: which tools can be published, which cannot and why.

Judging thousands of tools takes seconds of compiling, so it gives way to the event loop, and whatever did not change
since the last time is taken over as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from gateway.model import JsonObject, Listing, Rejected, ToolDefinition
from gateway.ports import Backend
from gateway.routing import PublishedTool, Route
from gateway.schemas import InputSchema, SchemaError, inline_refs, inlined, is_json_schema

TURN_S = 0.005  # of work between two looks at the event loop: no call waits noticeably longer

_encode = msgspec.json.Encoder(order="deterministic").encode  # a new order of keys is not a new tool


@runtime_checkable
class Heir(Protocol):
    """A backend that speaks as it has heard its tool server speak."""

    def take_over(self, before: Backend) -> None:
        """Learns from the backend in whose place it is, until it hears for itself."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A backend to be asked for its tools, and the bounds of what it may answer.

    `routes` are all routes in their order; of those of other backends only the places in that order matter here.
    `terms` are all that decides what its tool server lists and what that means; None if that is not known.
    """

    name: str
    backend: Backend
    refresh_s: float
    max_tools: int
    max_schema_bytes: int
    routes: Sequence[Route]
    terms: object = None

    def lists_as(self, other: Source) -> bool:
        """Whether a list of the other's is as good as one of its own."""
        return self.backend is other.backend or (self.terms is not None and self.terms == other.terms)

    def take_over(self, before: Source) -> None:
        """Lets a new backend call tools that another listed, while its tool server cannot be asked again."""
        if isinstance(self.backend, Heir) and self.backend is not before.backend:
            self.backend.take_over(before.backend)

    def route_for(self, definition: ToolDefinition) -> int | None:
        """The number of the first route that speaks of a tool; None when none does, or when it denies."""
        for number, route in enumerate(self.routes):
            if route.backend_name == self.name and route.matches(definition.tool, definition.version):
                return None if route.deny else number
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One routed tool: published, or the reason why not. `digest` is of the definition as discovered."""

    digest: str
    route: int
    tool: PublishedTool | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One answer of a tool server, judged. `trusted` is None until it has once listed a tool."""

    judged: dict[str, Judged]  # by tool id
    rejected: tuple[Rejected, ...] = ()
    trusted: frozenset[str] | None = None

    @property
    def tools(self) -> list[PublishedTool]:
        """Those that can be published."""
        return [entry.tool for entry in self.judged.values() if entry.tool is not None]

    @property
    def withheld(self) -> frozenset[str]:
        """All ids of tokens and secrets that some tool asks for and does not get."""
        return frozenset[str]().union(*(entry.tool.withheld for entry in self.judged.values() if entry.tool))


NOTHING = Offer(judged={})


async def judge(source: Source, listing: Listing, before: Offer) -> Offer:
    """Judges a listing. Ids that are new since the first one that had tools are trusted only where a route says so."""
    turns = _Turns()
    rejected = list(listing.rejected)
    if len(listing.tools) > source.max_tools:
        reason = f"It lists {len(listing.tools)} tools; only the first {source.max_tools} are looked at."
        rejected.append(Rejected(id=source.name, reason=reason))
    routed = []
    for definition in listing.tools[: source.max_tools]:
        await turns.give_way()
        if (route := source.route_for(definition)) is not None:
            routed.append((definition, route))
    routed, collided = _without_collisions(routed)
    rejected += collided
    trusted = before.trusted
    if trusted is None and listing.tools:
        trusted = _asked_for(listing.tools[: source.max_tools])
    judged = {}
    for definition, route in routed:
        await turns.give_way()
        entry = _judge_one(source, definition, route, trusted or frozenset(), before.judged.get(definition.id))
        judged[definition.id] = entry
        if entry.tool is None:
            rejected.append(Rejected(id=definition.id, reason=entry.reason))
    return Offer(judged=judged, rejected=tuple(rejected), trusted=trusted)


def _judge_one(
    source: Source, definition: ToolDefinition, number: int, trusted: frozenset[str], before: Judged | None
) -> Judged:
    encoded = _encode(definition)
    digest = hashlib.sha256(encoded).hexdigest()
    # Routes never change while a catalogue lives, and trust only once: the same definition is judged the same.
    if before is not None and before.digest == digest:
        return before
    reason = _too_large(definition, len(encoded), source.max_schema_bytes)
    if reason is not None:
        return Judged(digest=digest, route=number, tool=None, reason=reason)
    try:
        compiled = InputSchema.compile(definition.input_schema)
    except SchemaError as exc:
        return Judged(digest=digest, route=number, tool=None, reason=f"Its input schema cannot be used. {exc.reason}")
    route = source.routes[number]
    withheld = _asked_for([definition]) - trusted - route.context
    output, useful = _promised(definition.output_schema)
    definition = replace(definition, input_schema=inline_refs(definition.input_schema), output_schema=output)
    tool = PublishedTool.publish(definition, route, compiled, withheld, shows_output=useful)
    return Judged(digest=digest, route=number, tool=tool)


def _too_large(definition: ToolDefinition, size: int, most: int) -> str | None:
    """Why a definition of that many bytes is too much for the list of every caller; None when it is not."""
    schemas = {"input": definition.input_schema, "output": definition.output_schema}
    sizes = {which: 0 if schema is None else len(_encode(schema)) for which, schema in schemas.items()}
    for which, bytes_ in sizes.items():
        if bytes_ > most:
            return f"Its {which} schema has {bytes_} bytes; {most} are allowed."
    rest = size - sum(sizes.values())  # descriptions, examples, what it requires
    return f"Besides its schemas it has {rest} bytes; {most} are allowed." if rest > most else None


def _without_collisions(
    routed: Sequence[tuple[ToolDefinition, int]],
) -> tuple[list[tuple[ToolDefinition, int]], list[Rejected]]:
    """Takes out tools that share an id, and tools that share a name with another tool: nobody could tell them apart.

    Only what routes publish collides, so that an operator can deny one of two and have the other.
    """
    ids = Counter(definition.id for definition, _ in routed)
    named: defaultdict[str, set[str]] = defaultdict(set)
    for definition, _ in routed:
        named[definition.name].add(definition.tool)
    kept: list[tuple[ToolDefinition, int]] = []
    rejected: list[Rejected] = []
    for definition, route in routed:
        if ids[definition.id] > 1:
            rejected.append(Rejected(id=definition.id, reason="Its id is listed more than once."))
        elif len(named[definition.name]) > 1:
            reason = f"Its name {definition.name!r} is also that of another tool of this tool server."
            rejected.append(Rejected(id=definition.id, reason=reason))
        else:
            kept.append((definition, route))
    return kept, list(dict.fromkeys(rejected))


def _promised(schema: JsonObject | None) -> tuple[JsonObject | None, bool]:
    """An output schema with its references inlined, and whether callers could make anything of it."""
    if not schema:
        return schema, True
    try:
        promised = inlined(schema)
    except SchemaError:
        return schema, False
    return promised, is_json_schema(promised)


def _asked_for(definitions: Iterable[ToolDefinition]) -> frozenset[str]:
    """The ids of all tokens and secrets that tools ask for."""
    ids: set[str] = set()
    for definition in definitions:
        ids.update(provider.id for provider in definition.requires.authorization)
        ids.update(definition.requires.secrets)
    return frozenset(ids)


class _Turns:
    """Lets the event loop have a look whenever a turn of work is over."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._until = self._now() + TURN_S

    async def give_way(self) -> None:
        if self._now() >= self._until:
            await asyncio.sleep(0)
            self._until = self._now() + TURN_S
