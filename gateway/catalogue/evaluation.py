"""Evaluates what one tool server lists: which tools can be published, which cannot and why.

That takes seconds for thousands of tools, so it pauses for the event loop, and reuses the last evaluation of whatever
has not changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from gateway.catalogue.published import PublishedTool, Route
from gateway.catalogue.schema_checks import NO_TIME, TimeSlices, is_plain, verdicts
from gateway.core.model import Listing, Rejected, ToolDefinition
from gateway.core.ports import Backend
from gateway.core.tool_names import MAX_NAME_LENGTH, DefinitionError, published_name, tool_and_version
from gateway.offload import Offload
from gateway.offload.tasks import Verdict
from gateway.protocols.common import listing as listings
from gateway.schemas import CompiledSchema

_encode = msgspec.json.Encoder(order="deterministic").encode  # a new order of keys is not a new tool


@runtime_checkable
class StateCarrier(Protocol):
    """A backend with state that it learned from its tool server."""

    def take_over(self, before: Backend) -> None:
        """Starts with the state of the backend that it replaces."""
        ...


class Claim(NamedTuple):
    """The route under which a backend has a tool."""

    position: int  # among the routes of all backends
    hides: bool = False  # an earlier route of the same backend denies the tool, so it is not published


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSource:
    """A backend to be asked for its tools, and the bounds of what it may answer."""

    name: str
    backend: Backend
    refresh_s: float
    max_tools: int
    max_schema_bytes: int  # of one tool
    routes: Mapping[int, Route]  # its own in their order, by their positions among those of all backends
    toolkit: str = ""  # of the tools whose ids name none
    terms: object = None  # settings that decide what its tool server lists and how that is read; None: not known
    trusts_hints: bool = False  # hints of a tool decide what may be sent twice
    longest_name: int = MAX_NAME_LENGTH  # the same of all backends

    def lists_as(self, other: ToolSource) -> bool:
        """Whether a list of the other source can be used for this one."""
        return self.backend is other.backend or (self.terms is not None and self.terms == other.terms)

    def take_over(self, before: ToolSource) -> None:
        """Passes what another backend has learned to the backend that replaces it."""
        if isinstance(self.backend, StateCarrier) and self.backend is not before.backend:
            self.backend.take_over(before.backend)

    def claim(self, tool: str, version: str) -> Claim | None:
        """The claim of the first route that matches a tool; None if none does.

        If that denies the tool, it is the claim of a later one that writes out the toolkit, if there is one.
        """
        is_denied = False
        for position, route in self.routes.items():
            if not route.matches(tool, version):
                continue
            if not route.deny and (route.names_toolkit or not is_denied):
                return Claim(position, is_denied)
            is_denied = True
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedTool:
    """One routed tool: published, or the reason why not."""

    digest: str  # of the definition as discovered
    route: int  # the position of its route
    tool: PublishedTool | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One evaluated list of a tool server."""

    by_id: dict[str, EvaluatedTool]
    # To all tools that it lists, by id, and behind these to those that it listed before: to usable tools and others.
    claims: Mapping[str, Claim] = field(default_factory=dict)
    rejected: tuple[Rejected, ...] = ()
    trusted: frozenset[str] | None = None  # ids of tokens and secrets; None until it has once listed a tool
    complete: bool = True  # there was time to evaluate all tools

    @property
    def tools(self) -> list[PublishedTool]:
        """Those that can be published."""
        return [entry.tool for entry in self.by_id.values() if entry.tool is not None]

    def as_first(self, definitions: Sequence[ToolDefinition]) -> Evaluation:
        """The same as if these were the first to be listed: only what they ask for is trusted."""
        asked_for = frozenset[str]().union(*map(_asked_for, definitions))
        return dataclasses.replace(self, trusted=asked_for if definitions else None)

    @property
    def has_listed(self) -> bool:
        """Whether its tool server has ever listed a tool."""
        return self.trusted is not None

    @property
    def withheld(self) -> frozenset[str]:
        """All ids of tokens and secrets that some tool asks for and does not get."""
        return frozenset[str]().union(*(entry.tool.withheld for entry in self.by_id.values() if entry.tool))


UNEVALUATED = Evaluation(by_id={})


async def evaluate(
    source: ToolSource, listing: Listing, before: Evaluation, offload: Offload | None = None
) -> Evaluation:
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
    candidates = []
    asked_for: set[str] = set()
    claims = await _claims_to_rejected(source, rejected, slices)
    async for definition in slices.over(definitions):
        asked_for |= _asked_for(definition)
        claim = source.claim(definition.tool, definition.version)
        if claim is not None:
            claims[definition.id] = claim
            if not claim.hides:
                candidates.append((definition, claim.position))
    claims = _with_earlier(claims, before.claims, source.max_tools)
    candidates, collisions = await _without_collisions(candidates, slices)
    trusted = frozenset(asked_for) if before.trusted is None and definitions else before.trusted
    by_id: dict[str, EvaluatedTool] = {}
    unchecked: list[tuple[ToolDefinition, bool]] = []
    async for definition, route in slices.over(candidates):
        text = _encode(definition)
        digest, entry = hashlib.sha256(text).hexdigest(), before.by_id.get(definition.id)
        # Routes never change while a catalogue lives, and trust only once: the same definition has the same evaluation.
        if entry is None or entry.digest != digest:
            too_large = listings.too_large(definition, len(text), source.max_schema_bytes)
            entry = EvaluatedTool(digest=digest, route=route, tool=None, reason=too_large or "")
            if too_large is None:
                unchecked.append((definition, is_plain(text)))
        by_id[definition.id] = entry
    complete = True
    async for definition, verdict in verdicts(unchecked, offload, source.name, slices):
        complete &= verdict is not NO_TIME
        entry = by_id[definition.id]
        by_id[definition.id] = _published(source, definition, verdict, entry, trusted or frozenset())
    rejected += collisions
    rejected += [Rejected(id=id_, reason=entry.reason) for id_, entry in by_id.items() if entry.tool is None]
    return Evaluation(by_id=by_id, claims=claims, rejected=tuple(rejected), trusted=trusted, complete=complete)


async def claims_to(source: ToolSource, ids: Iterable[str], slices: TimeSlices) -> dict[str, Claim]:
    """The claims of a source to tools by their ids."""
    claims = {}
    async for id_ in slices.over(ids):
        tool, _, version = id_.partition("@")
        if (claim := source.claim(tool, version)) is not None:
            claims[id_] = claim
    return claims


async def _claims_to_rejected(source: ToolSource, rejected: Sequence[Rejected], slices: TimeSlices) -> dict[str, Claim]:
    """The claims to tools that are listed and cannot be used, as far as their ids can be read."""
    ids = (_id_of(tool, source.toolkit) for tool in rejected[: source.max_tools])
    return await claims_to(source, (id_ for id_ in ids if id_), slices)


def _id_of(rejected: Rejected, toolkit: str) -> str:
    """The id under which it would be published; empty if there is none."""
    try:
        tool, version, _ = tool_and_version(rejected.id, None, toolkit)
    except DefinitionError:
        return ""
    return f"{tool}@{version}"


def _with_earlier(claims: dict[str, Claim], before: Mapping[str, Claim], most: int) -> dict[str, Claim]:
    """Adds earlier claims, the latest first, until there are `most` of them."""
    room = len(claims) + most
    for id_, claim in before.items():
        if len(claims) >= room:
            break
        claims.setdefault(id_, claim)
    return claims


def _published(
    source: ToolSource, definition: ToolDefinition, verdict: Verdict, known: EvaluatedTool, trusted: frozenset[str]
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
    candidates: Sequence[tuple[ToolDefinition, int]], slices: TimeSlices
) -> tuple[list[tuple[ToolDefinition, int]], list[Rejected]]:
    """Takes out tools that share an id.

    Only what routes publish collides, so that an operator can deny one of two and have the other.
    """
    ids: Counter[str] = Counter()
    async for definition, _ in slices.over(candidates):
        ids[definition.id] += 1
    unique: list[tuple[ToolDefinition, int]] = []
    rejected: dict[Rejected, None] = {}
    async for definition, route in slices.over(candidates):
        if ids[definition.id] > 1:
            rejected[Rejected(id=definition.id, reason="Its id is listed more than once.")] = None
        else:
            unique.append((definition, route))
    return unique, list(rejected)


def _asked_for(definition: ToolDefinition) -> frozenset[str]:
    """The ids of the tokens and secrets that a tool asks for."""
    requires = definition.requires
    return frozenset((*(provider.id for provider in requires.authorization), *requires.secrets))
