"""Which backend a tool belongs to: a name has one owner, and only its versions are published.

Otherwise a tool server would take over the tool of another by listing it in a higher version. The owner is the first of

1. the routes that write out a toolkit and name versions, such as `Bank.Pay@2.*`: they have these versions;
2. the other routes, in their order.

Of a route's backend must be known that it lists the tool, or has listed it since the gateway started. If it has never
listed any, it is enough that the route writes out the toolkit: `Bank.*`, not `*`.

A backend that denies a tool neither has it, nor takes it from another. But what it denies although a route of it writes
out the toolkit, as an exception from that route, is not given to a mere `*` of another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from gateway.catalogue.evaluation import Evaluation, ToolSource
from gateway.catalogue.published import Route, matcher
from gateway.catalogue.unlisted import digest_beginning, may_begin, tools_named
from gateway.core.tool_names import DIGEST_LENGTH, VERSION_NAME


class Holder(NamedTuple):
    """A backend with a claim: to `tool`, or if that is empty to all that its `route` may publish, once it lists."""

    position: int  # of the route among all
    backend: str
    route: Route
    tool: str = ""
    hides: bool = False  # as in Claim

    def may_have(self, tool: str) -> bool:
        """Whether it may have some version of a tool."""
        return self.tool == tool or (not self.tool and matcher(_pattern(self.route))(tool))

    def why(self, subject: str, other: str) -> str:
        """Why something is not the other backend's, and how its configuration says that this is meant."""
        owner = f"{subject} belongs to backend {self.backend!r}"
        cure = f"; a deny route for {other!r} says that this is meant."
        if self.hides:
            return f"{owner}, which denies it{cure}"
        if self.route.names_versions:
            return f"{owner}, whose route {self.route.tools!r} names its version{cure}"
        if not self.tool:
            return (
                f"{owner}, whose route {self.route.tools!r} writes out its toolkit, and which has listed no tools yet."
            )
        return f"{owner}, whose route {self.route.tools!r} comes first{cure}"


class Owners:
    """Tells the owners of tools and of their names, by the claims of all backends.

    Of thousands of tools very few are disputed: only for these more is kept than who lists them.
    """

    def __init__(self, evaluations: Sequence[tuple[ToolSource, Evaluation]], longest_name: int) -> None:
        self._holders: defaultdict[str, list[Holder]] = defaultdict(list)  # of disputed tools, by _key
        self._unlisted: defaultdict[str, list[tuple[ToolSource, Holder]]] = defaultdict(
            list
        )  # by toolkit in lower case
        if len(evaluations) > 1:  # else there is nobody to take a tool from
            self._note_disputed(evaluations)
            for source, evaluation in evaluations:
                if not evaluation.has_listed:
                    self._note_unlisted(source)
        cut = longest_name - DIGEST_LENGTH - 1  # names are cut here
        self._beginnings = tuple(toolkit[:cut] for toolkit in self._unlisted)

    def _note_disputed(self, evaluations: Sequence[tuple[ToolSource, Evaluation]]) -> None:
        backends: dict[str, str] = {}
        disputed: set[str] = set()
        for source, evaluation in evaluations:
            for id_ in evaluation.claims:
                key = _key(id_.partition("@")[0])
                if backends.setdefault(key, source.name) != source.name:
                    disputed.add(key)
                if "_v" in key and (version := VERSION_NAME.fullmatch(key)):
                    disputed.update((key, version[1]))
        for source, evaluation in evaluations if disputed else ():
            tools = ((id_.partition("@")[0], claim) for id_, claim in evaluation.claims.items())
            for tool, claim in {pair for pair in tools if _key(pair[0]) in disputed}:
                holder = Holder(claim.position, source.name, source.routes[claim.position], tool, claim.hides)
                self._holders[_key(tool)].append(holder)

    def _note_unlisted(self, source: ToolSource) -> None:
        for position, route in source.routes.items():
            if route.names_toolkit and not route.deny:
                self._unlisted[_toolkit(route.tools)].append((source, Holder(position, source.name, route)))

    def is_disputed(self, tool: str) -> bool:
        """Whether another backend may have a tool, or have its name for another."""
        key = _key(tool)
        return key in self._holders or key.startswith(self._beginnings)

    def trouble(self, mine: Holder, version: str) -> str | None:
        """Why a disputed tool that a backend lists is not published; None if it is its own."""
        owner = self._owner(mine, version)
        if owner.backend != mine.backend:
            return owner.why(f"{mine.tool}@{version}" if owner.route.names_versions else mine.tool, mine.backend)
        if (original := self._original(mine)) is not None:
            alike = original.tool or original.route.tools
            return f"It differs in upper and lower case only from {alike} of backend {original.backend!r}."
        return None

    def name_trouble(self, name: str, mine: Holder) -> str | None:
        """Why a tool cannot have a name; None if no other backend, by an earlier route, has or may have one named so.

        Versions of that may be named so, too.
        """
        version = VERSION_NAME.fullmatch(name)
        names = (name,) if version is None else (name, version[1])
        holders = [holder for named in names for holder in self._named(named) if holder.tool != mine.tool]
        holder = _first_before(mine, [*holders, *self._may_be_named(names)])
        return holder and f"The name {name!r} is kept for {holder.tool or holder.route.tools} of {holder.backend!r}"

    def _named(self, name: str) -> Iterator[Holder]:
        for holder in self._holders.get(name.lower(), ()):
            if holder.tool.replace(".", "_", 1) == name:
                yield holder

    def _may_be_named(self, names: Sequence[str]) -> Iterator[Holder]:
        """Backends that have listed no tools yet and may list one with one of these names."""
        for tool in chain.from_iterable(map(tools_named, names)):
            for _, holder in self._unlisted.get(_toolkit(tool), ()):
                if holder.may_have(tool):
                    yield holder
        if (beginning := digest_beginning(names[0])) is not None:
            for _, holder in chain.from_iterable(self._unlisted.values()):
                if may_begin(holder.route, beginning):
                    yield holder

    def _owner(self, mine: Holder, version: str) -> Holder:
        reserved = None
        for holder in sorted((mine, *self._claims(mine.tool, version)), key=_order):
            if holder.hides:
                reserved = reserved or holder
            elif reserved is None or holder.backend == reserved.backend or holder.route.names_toolkit:
                return holder
        return reserved or mine

    def _claims(self, tool: str, version: str) -> Iterator[Holder]:
        """The claims of other backends to a version of a tool, and perhaps those of its own."""
        for holder in self._holders.get(_key(tool), ()):
            if holder.tool == tool and holder.route.matches(tool, version):
                yield holder
        for source, holder in self._unlisted.get(_toolkit(tool), ()):
            claim = source.claim(tool, version)
            if claim is not None and claim.position == holder.position:
                yield holder._replace(hides=claim.hides)

    def _original(self, mine: Holder) -> Holder | None:
        """Who has a tool from which this one differs in case only; if its route writes out its toolkit, it may."""
        if mine.route.names_toolkit:
            return None
        tool, folded = mine.tool, mine.tool.lower()
        alike = [
            holder
            for holder in self._holders.get(_key(tool), ())
            if holder.tool != tool and holder.tool.lower() == folded
        ]
        for _, holder in self._unlisted.get(_toolkit(tool), ()):
            if not holder.may_have(tool) and matcher(_pattern(holder.route).lower())(folded):
                alike.append(holder)
        return _first_before(mine, alike)


def _order(holder: Holder) -> tuple[bool, int]:
    route = holder.route
    return not (route.names_versions and route.names_toolkit), holder.position


def _first_before(mine: Holder, others: Iterable[Holder]) -> Holder | None:
    """The first of the others by their routes, if that comes before mine and is another backend's."""
    earlier = (holder for holder in others if holder.position < mine.position and holder.backend != mine.backend)
    return min(earlier, key=lambda holder: holder.position, default=None)


def _pattern(route: Route) -> str:
    return route.tools.partition("@")[0]


def _toolkit(tool: str) -> str:
    return tool.partition(".")[0].lower()


def _key(tool: str) -> str:
    """What is the same for tools that differ in case only, and for tools of one name."""
    return tool.replace(".", "_", 1).lower()
