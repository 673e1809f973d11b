"""Evaluates what one tool server lists: which tools can be published, which cannot and why.

That takes seconds for thousands of tools, so it pauses for the event loop, and reuses the last evaluation of whatever
has not changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from gateway.catalogue.schema_checks import NO_TIME, TimeSlices, is_plain, verdicts
from gateway.dialects import listings
from gateway.model import Listing, Rejected, ToolDefinition, ToolRef
from gateway.naming import MAX_NAME_LENGTH, digest_name, published_name
from gateway.offload import Offload
from gateway.offload.tasks import Verdict
from gateway.ports import Backend, Caller
from gateway.published import PublishedTool, Route
from gateway.routing import Router
from gateway.schemas import CompiledSchema

_encode = msgspec.json.Encoder(order="deterministic").encode  # a new order of keys is not a new tool


@runtime_checkable
class StateCarrier(Protocol):
    """A backend with state that it learned from its tool server."""

    def take_over(self, before: Backend) -> None:
        """Starts with the state of the backend that it replaces."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A backend to be asked for its tools, and the bounds of what it may answer.

    `routes` are its own routes in their order, by their positions among those of all backends. `terms` are the settings
    that decide what its tool server lists and how that is read; None if they are not known. `longest_name` is the same
    of all.
    """

    name: str
    backend: Backend
    refresh_s: float
    max_tools: int
    max_schema_bytes: int
    routes: Mapping[int, Route]
    terms: object = None
    trusts_hints: bool = False
    longest_name: int = MAX_NAME_LENGTH

    def lists_as(self, other: Source) -> bool:
        """Whether a list of the other source can be used for this one."""
        return self.backend is other.backend or (self.terms is not None and self.terms == other.terms)

    def take_over(self, before: Source) -> None:
        """Passes what another backend has learned to the backend that replaces it."""
        if isinstance(self.backend, StateCarrier) and self.backend is not before.backend:
            self.backend.take_over(before.backend)

    def route_for(self, definition: ToolDefinition) -> int | None:
        """The position of the first route that matches a tool; None if none does, or if that denies it."""
        for position, route in self.routes.items():
            if route.matches(definition.tool, definition.version):
                return None if route.deny else position
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedTool:
    """One routed tool: published, or the reason why not. `digest` is of the definition as discovered."""

    digest: str
    route: int
    tool: PublishedTool | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One evaluated list of a tool server. `trusted` is None until it has once listed a tool.

    `complete`: there was time to evaluate all tools.
    """

    by_id: dict[str, EvaluatedTool]
    rejected: tuple[Rejected, ...] = ()
    trusted: frozenset[str] | None = None
    complete: bool = True

    @property
    def tools(self) -> list[PublishedTool]:
        """Those that can be published."""
        return [entry.tool for entry in self.by_id.values() if entry.tool is not None]

    def as_first(self, definitions: Sequence[ToolDefinition]) -> Evaluation:
        """The same as if these were the first to be listed: only what they ask for is trusted."""
        asked_for = frozenset[str]().union(*map(_asked_for, definitions))
        return dataclasses.replace(self, trusted=asked_for if definitions else None)

    @property
    def withheld(self) -> frozenset[str]:
        """All ids of tokens and secrets that some tool asks for and does not get."""
        return frozenset[str]().union(*(entry.tool.withheld for entry in self.by_id.values() if entry.tool))


UNEVALUATED = Evaluation(by_id={})


async def evaluate(source: Source, listing: Listing, before: Evaluation, offload: Offload | None = None) -> Evaluation:
    """Evaluates a listing. Ids of tokens and secrets that are new since the first listing are trusted only by routes.

    Schemas that may take long are checked by `offload`; without it, all of them here. Raises BACKEND_UNAVAILABLE when
    that process has no time.
    """
    slices = TimeSlices()
    rejected = list(listing.rejected)
    if len(listing.tools) > source.max_tools:
        reason = f"It lists {len(listing.tools)} tools; only the first {source.max_tools} are looked at."
        rejected.append(Rejected(id=source.name, reason=reason))
    definitions = listing.tools[: source.max_tools]
    routed = []
    asked_for: set[str] = set()
    async for definition in slices.over(definitions):
        asked_for |= _asked_for(definition)
        if (route := source.route_for(definition)) is not None:
            routed.append((definition, route))
    routed, collided = await _without_collisions(routed, slices)
    trusted = frozenset(asked_for) if before.trusted is None and definitions else before.trusted
    by_id: dict[str, EvaluatedTool] = {}
    unchecked: list[tuple[ToolDefinition, bool]] = []
    async for definition, route in slices.over(routed):
        text = _encode(definition)
        digest, known = hashlib.sha256(text).hexdigest(), before.by_id.get(definition.id)
        # Routes never change while a catalogue lives, and trust only once: the same definition has the same evaluation.
        if known is None or known.digest != digest:
            too_large = listings.too_large(definition, len(text), source.max_schema_bytes)
            known = EvaluatedTool(digest=digest, route=route, tool=None, reason=too_large or "")
            if too_large is None:
                unchecked.append((definition, is_plain(text)))
        by_id[definition.id] = known
    complete = True
    async for definition, verdict in verdicts(unchecked, offload, source.name, slices):
        complete &= verdict is not NO_TIME
        entry = by_id[definition.id]
        by_id[definition.id] = _published(source, definition, verdict, entry, trusted or frozenset())
    rejected += collided
    rejected += [Rejected(id=id_, reason=entry.reason) for id_, entry in by_id.items() if entry.tool is None]
    return Evaluation(by_id=by_id, rejected=tuple(rejected), trusted=trusted, complete=complete)


def _published(
    source: Source, definition: ToolDefinition, verdict: Verdict, known: EvaluatedTool, trusted: frozenset[str]
) -> EvaluatedTool:
    if verdict.reason:
        digest = "" if verdict is NO_TIME else known.digest  # it is checked the next time
        return EvaluatedTool(digest=digest, route=known.route, tool=None, reason=verdict.reason)
    route = source.routes[known.route]
    withheld = _asked_for(definition) - trusted - route.context
    hints = definition.hints
    if source.trusts_hints and (hints.get("idempotent") or hints.get("read_only")):
        route = dataclasses.replace(route, idempotent=True)
    schema, listed = CompiledSchema(definition.input_schema), verdict.schemas
    name = published_name(definition.tool, source.longest_name)
    as_listed = listed.input is definition.input_schema and listed.output is definition.output_schema
    if not as_listed or name != definition.name:  # else one is enough: thousands of tools are kept
        definition = replace(definition, name=name, input_schema=listed.input, output_schema=listed.output)
    tool = PublishedTool.publish(definition, route, schema, withheld, shows_output=verdict.shows_output)
    return EvaluatedTool(digest=known.digest, route=known.route, tool=tool)


async def _without_collisions(
    routed: Sequence[tuple[ToolDefinition, int]], slices: TimeSlices
) -> tuple[list[tuple[ToolDefinition, int]], list[Rejected]]:
    """Takes out tools that share an id.

    Only what routes publish collides, so that an operator can deny one of two and have the other.
    """
    ids: Counter[str] = Counter()
    async for definition, _ in slices.over(routed):
        ids[definition.id] += 1
    kept: list[tuple[ToolDefinition, int]] = []
    rejected: dict[Rejected, None] = {}
    async for definition, route in slices.over(routed):
        if ids[definition.id] > 1:
            rejected[Rejected(id=definition.id, reason="Its id is listed more than once.")] = None
        else:
            kept.append((definition, route))
    return kept, list(rejected)


def _asked_for(definition: ToolDefinition) -> frozenset[str]:
    """The ids of the tokens and secrets that a tool asks for."""
    requires = definition.requires
    return frozenset((*(provider.id for provider in requires.authorization), *requires.secrets))


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A snapshot of all evaluations; by backend, how many tools are published, which are not, and which are renamed."""

    router: Router
    published: Mapping[str, int]
    shadowed: Mapping[str, Sequence[Rejected]]
    renamed: Mapping[str, Sequence[Rejected]]


def merge(
    evaluations: Sequence[tuple[Source, Evaluation]], unlisted: Callable[[ToolRef, Caller], str | None]
) -> Merged:
    """Makes a snapshot of all evaluations; of two tools with one id, that of the earlier route stays.

    Of two tools with one name that of the earlier route keeps it, of one route the first by id; the other has a digest
    in its name. `unlisted` as in Router.
    """
    longest = min((source.longest_name for source, _ in evaluations), default=MAX_NAME_LENGTH)
    contenders = [
        (entry.route, entry.tool.id, source.name, entry.tool)
        for source, evaluation in evaluations
        for entry in evaluation.by_id.values()
        if entry.tool is not None
    ]
    contenders.sort()  # a backend's ids are unique, and so are its routes: no two tools are compared
    by_id: dict[str, PublishedTool] = {}
    owners: dict[str, str] = {}  # the tools that have each name
    won: dict[str, int] = {}
    shadowed: dict[str, list[Rejected]] = {}
    renamed: dict[str, list[Rejected]] = {}
    for _, id_, backend, tool in contenders:
        if id_ in by_id:
            first = by_id[id_].route.backend_name
            reason = f"{id_} of backend {first!r}, whose route comes first, hides it."
            shadowed.setdefault(backend, []).append(Rejected(id=id_, reason=reason))
            continue
        usual, tool_name = tool.definition.name, tool.definition.tool
        if (owner := owners.setdefault(usual, tool_name)) != tool_name:
            name = digest_name(tool_name, longest)
            reason = f"{owner} has the name {usual!r}, so its name is {name!r}."
            if owners.setdefault(name, tool_name) != tool_name:
                reason = f"{owner} has the name {usual!r}, and {owners[name]} the one it would have instead."
                shadowed.setdefault(backend, []).append(Rejected(id=id_, reason=reason))
                continue
            renamed.setdefault(backend, []).append(Rejected(id=id_, reason=reason))
            tool = tool.renamed(name)
        by_id[id_] = tool
        won[backend] = won.get(backend, 0) + 1
    router = Router(by_id.values(), unlisted, longest_name=longest)
    return Merged(router=router, published=won, shadowed=shadowed, renamed=renamed)
