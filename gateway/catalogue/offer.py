"""What one tool server offers, judged: which tools can be published, which cannot and why.

Judging thousands of tools takes seconds of compiling, so it gives way to the event loop, and whatever did not change
since the last time is taken over as it is.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from gateway.catalogue.turns import Turns
from gateway.catalogue.verdicts import NO_TIME, Bench
from gateway.dialects import listings
from gateway.model import Listing, Rejected, ToolDefinition
from gateway.offload import Offload
from gateway.offload.judging import Verdict
from gateway.ports import Backend
from gateway.routing import PublishedTool, Route
from gateway.schemas import InputSchema

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
    """One answer of a tool server, judged. `trusted` is None until it has once listed a tool.

    `complete`: there was time to judge all tools.
    """

    judged: dict[str, Judged]  # by tool id
    rejected: tuple[Rejected, ...] = ()
    trusted: frozenset[str] | None = None
    complete: bool = True

    @property
    def tools(self) -> list[PublishedTool]:
        """Those that can be published."""
        return [entry.tool for entry in self.judged.values() if entry.tool is not None]

    @property
    def withheld(self) -> frozenset[str]:
        """All ids of tokens and secrets that some tool asks for and does not get."""
        return frozenset[str]().union(*(entry.tool.withheld for entry in self.judged.values() if entry.tool))


NOTHING = Offer(judged={})


async def judge(source: Source, listing: Listing, before: Offer, offload: Offload | None = None) -> Offer:
    """Judges a listing. Ids that are new since the first one that had tools are trusted only where a route says so.

    Schemas that may take long are judged by `offload`, without one all of them here. Raises BACKEND_UNAVAILABLE when
    that process has no time.
    """
    turns = Turns()
    rejected = list(listing.rejected)
    if len(listing.tools) > source.max_tools:
        reason = f"It lists {len(listing.tools)} tools; only the first {source.max_tools} are looked at."
        rejected.append(Rejected(id=source.name, reason=reason))
    routed = []
    for definition in listing.tools[: source.max_tools]:
        await turns.give_way()
        if (route := source.route_for(definition)) is not None:
            routed.append((definition, route))
    routed, collided = await _without_collisions(routed, turns)
    rejected += collided
    trusted = before.trusted
    if trusted is None and listing.tools:
        trusted = await _asked_for_by_all(listing.tools[: source.max_tools], turns)
    judged: dict[str, Judged] = {}
    bench = Bench(offload, source.name, turns)
    for definition, route in routed:
        await turns.give_way()
        entry = _known(definition, route, source, before.judged.get(definition.id), bench)
        judged[definition.id] = entry
    async for definition, verdict in bench.verdicts():
        entry = judged[definition.id]
        judged[definition.id] = _published(source, definition, verdict, entry, trusted or frozenset())
    rejected += [Rejected(id=id_, reason=entry.reason) for id_, entry in judged.items() if entry.tool is None]
    return Offer(judged=judged, rejected=tuple(rejected), trusted=trusted, complete=bench.complete)


def _known(definition: ToolDefinition, route: int, source: Source, before: Judged | None, bench: Bench) -> Judged:
    """What is known of a tool without its schemas; these go to the bench if they have to be judged."""
    text = _encode(definition)
    digest = hashlib.sha256(text).hexdigest()
    # Routes never change while a catalogue lives, and trust only once: the same definition is judged the same.
    if before is not None and before.digest == digest:
        return before
    reason = listings.too_large(definition, len(text), source.max_schema_bytes)
    if reason is None:
        bench.add(definition, text)
    return Judged(digest=digest, route=route, tool=None, reason=reason or "")


def _published(
    source: Source, definition: ToolDefinition, verdict: Verdict, known: Judged, trusted: frozenset[str]
) -> Judged:
    if verdict.reason:
        digest = "" if verdict is NO_TIME else known.digest  # it is judged the next time
        return Judged(digest=digest, route=known.route, tool=None, reason=verdict.reason)
    route = source.routes[known.route]
    withheld = _asked_for(definition) - trusted - route.context
    schema, listed = InputSchema.uncompiled(definition.input_schema), verdict.schemas
    definition = replace(definition, input_schema=listed.input, output_schema=listed.output)
    tool = PublishedTool.publish(definition, route, schema, withheld, shows_output=verdict.shows_output)
    return Judged(digest=known.digest, route=known.route, tool=tool)


async def _without_collisions(
    routed: Sequence[tuple[ToolDefinition, int]], turns: Turns
) -> tuple[list[tuple[ToolDefinition, int]], list[Rejected]]:
    """Takes out tools that share an id, and tools that share a name with another tool: nobody could tell them apart.

    Only what routes publish collides, so that an operator can deny one of two and have the other.
    """
    ids: Counter[str] = Counter()
    named: defaultdict[str, set[str]] = defaultdict(set)
    for definition, _ in routed:
        await turns.give_way()
        ids[definition.id] += 1
        named[definition.name].add(definition.tool)
    kept: list[tuple[ToolDefinition, int]] = []
    rejected: dict[Rejected, None] = {}
    for definition, route in routed:
        await turns.give_way()
        if ids[definition.id] > 1:
            rejected[Rejected(id=definition.id, reason="Its id is listed more than once.")] = None
        elif len(named[definition.name]) > 1:
            reason = f"Its name {definition.name!r} is also that of another tool of this tool server."
            rejected[Rejected(id=definition.id, reason=reason)] = None
        else:
            kept.append((definition, route))
    return kept, list(rejected)


async def _asked_for_by_all(definitions: Iterable[ToolDefinition], turns: Turns) -> frozenset[str]:
    """The ids of all tokens and secrets that any of so many tools asks for."""
    ids: set[str] = set()
    for definition in definitions:
        await turns.give_way()
        ids |= _asked_for(definition)
    return frozenset(ids)


def _asked_for(definition: ToolDefinition) -> frozenset[str]:
    """The ids of the tokens and secrets that a tool asks for."""
    requires = definition.requires
    return frozenset((*(provider.id for provider in requires.authorization), *requires.secrets))
