"""Which tool of which backend a reference means, and which tools a caller may use.

A `Router` is a snapshot: the catalogue builds a new one and swaps it in whole, so that a request which holds one
sees a consistent world to its end. Version resolution follows OXP 1.0, call-tool: Tool Version Resolution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Self

from gateway.catalogue.published import PublishedTool
from gateway.core.errors import ErrorCode, GatewayError, InsufficientScopeError, unavailable
from gateway.core.model import Selection, ToolRef
from gateway.core.ports import Caller
from gateway.core.surfaces import EVERYTHING
from gateway.core.tool_names import MAX_NAME_LENGTH, digest_name, version_name

MAX_VERSIONS_TOLD = 10  # of a tool, in a developer message; it may have thousands


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """The tools of one toolkit, by tool and ascending version. Each set of `scopes` lets a caller use some of them."""

    name: str
    tools: tuple[PublishedTool, ...]
    description: str | None
    scopes: frozenset[frozenset[str]]

    @classmethod
    def of(cls, name: str, tools: Sequence[PublishedTool], description: str | None) -> Self:
        scopes = frozenset(tool.route.scopes for tool in tools)
        return cls(name=name, tools=tuple(tools), description=description, scopes=scopes)


class _Versions:
    """Several versions of one tool (or of one name). A tool that has a single version stands for itself."""

    __slots__ = ("_by_version", "_latest")

    def __init__(self, ascending: Iterable[PublishedTool]) -> None:
        self._by_version = {tool.definition.version: tool for tool in ascending}
        # The latest for some caller is always the newest of those under the same scopes, so a search looks at
        # as many tools as there are distinct sets of scopes, not at every version.
        latest: dict[frozenset[str], PublishedTool] = {}
        for tool in reversed(self._by_version.values()):
            latest.setdefault(tool.route.scopes, tool)
        self._latest = tuple(latest.values())

    @property
    def newest(self) -> PublishedTool:
        return self._latest[0]

    @property
    def ascending(self) -> Sequence[PublishedTool]:
        return tuple(self._by_version.values())

    def of_version(self, version: str) -> PublishedTool | None:
        return self._by_version.get(version)

    def latest_for(self, scopes: frozenset[str]) -> PublishedTool | None:
        """The newest that these scopes let a caller use."""
        return next((tool for tool in self._latest if tool.route.scopes <= scopes), None)


class Router:
    """An immutable snapshot of everything published.

    `unlisted` names a backend that has never been listed and may have a tool that a caller may use, if there is one.
    Names are unique, and at most `longest_name` long. The first of the `tools` that describes its toolkit is heard: it
    has the first route.
    """

    def __init__(
        self,
        tools: Iterable[PublishedTool] = (),
        unlisted: Callable[[ToolRef, Caller], str | None] = lambda _ref, _caller: None,
        *,
        longest_name: int = MAX_NAME_LENGTH,
    ) -> None:
        self._unlisted = unlisted
        tools = tuple(tools)
        by_version = sorted(tools, key=lambda tool: tool.version_key)
        self.tools = tuple(sorted(by_version, key=lambda tool: tool.definition.tool))
        self._by_tool = _families((tool.definition.tool, tool) for tool in self.tools)
        self._by_name = _families((tool.definition.name, tool) for tool in by_version)
        self._version_names: dict[str, str] = {}
        self._name_versions(longest_name)
        toolkits: defaultdict[str, list[PublishedTool]] = defaultdict(list)
        for tool in self.tools:
            toolkits[tool.definition.toolkit].append(tool)
        descriptions: dict[str, str] = {}
        for tool in tools:
            if text := tool.definition.toolkit_description:
                descriptions.setdefault(tool.definition.toolkit, text)
        self.toolkits = {name: Toolkit.of(name, members, descriptions.get(name)) for name, members in toolkits.items()}
        self._scopes = frozenset[str]().union(*{tool.route.scopes for tool in self.tools})
        self._snapshot = object()

    def resolve(self, ref: ToolRef, caller: Caller, hide: bool = False) -> PublishedTool:
        """Finds the tool a caller means; without a version, the latest that the caller may use.

        Raises: TOOL_NOT_FOUND; BACKEND_UNAVAILABLE instead while a backend that was never listed may have the tool;
        FORBIDDEN when only the scopes of routes stand in the way, unless they `hide` tools.
        """
        family = (self._by_name if ref.by_name else self._by_tool).get(ref.tool)
        if family is None or (ref.toolkit is not None and family.newest.definition.toolkit != ref.toolkit):
            raise self._not_found(_no_such_tool(ref), ref, caller)
        if ref.version is None:
            latest = family.latest_for(caller.scopes)
            if latest is not None:
                return latest
            raise self._not_found(_no_such_tool(ref), ref, caller) if hide else _forbidden(ref, family.newest)
        exact = family.of_version(ref.version)
        if exact is not None and exact.route.scopes <= caller.scopes:
            return exact
        if exact is not None and not hide:
            raise _forbidden(ref, exact)
        usable = [tool.definition.version for tool in family.ascending if tool.route.scopes <= caller.scopes]
        not_found = _no_such_version(ref, usable) if usable or not hide else _no_such_tool(ref)
        raise self._not_found(not_found, ref, caller)

    def _not_found(self, error: GatewayError, ref: ToolRef, caller: Caller) -> GatewayError:
        """The refusal of a tool that is not here: final, unless it may yet be listed."""
        backend = self._unlisted(ref, caller)
        return error if backend is None else unavailable(f"backend {backend!r} has never listed its tools")

    def find_hidden(self, ref: ToolRef) -> PublishedTool | None:
        """The tool that a caller means, even if that caller may not use it; None if there is none."""
        family = (self._by_name if ref.by_name else self._by_tool).get(ref.tool)
        if family is None:
            return None
        return family.newest if ref.version is None else family.of_version(ref.version)

    def find(self, tool_id: str) -> PublishedTool | None:
        """The tool of a full id."""
        tool, _, version = tool_id.partition("@")
        family = self._by_tool.get(tool)
        return None if family is None else family.of_version(version)

    def tools_for(self, caller: Caller, selection: Selection = EVERYTHING) -> tuple[PublishedTool, ...]:
        """The tools a caller may use, by tool and ascending version: some callers keep the last of each name."""
        tools = self.tools
        if selection.toolkit is not None:
            toolkit = self.toolkits.get(selection.toolkit)
            tools = () if toolkit is None else toolkit.tools
        usable = (tool for tool in tools if tool.route.scopes <= caller.scopes)
        if selection.versions != "newest":
            return tuple(usable)
        return tuple({tool.definition.tool: tool for tool in usable}.values())

    def list_names(self, tools: Sequence[PublishedTool]) -> list[str]:
        """A name for each of some tools, which are by tool and ascending version: older ones have their version's."""
        following = chain((tool.definition.tool for tool in tools[1:]), (None,))
        return [
            tool.definition.name if tool.definition.tool != next_tool else self._version_names[tool.id]
            for tool, next_tool in zip(tools, following, strict=True)
        ]

    def toolkits_for(self, caller: Caller) -> Iterator[Toolkit]:
        """The toolkits of which a caller may use some tool."""
        for toolkit in self.toolkits.values():
            if any(needed <= caller.scopes for needed in toolkit.scopes):
                yield toolkit

    def visible_key(self, caller: Caller) -> Hashable:
        """A key under which anything made of `tools_for(caller)` may be cached; no other snapshot has it."""
        return self._snapshot, self._scopes & caller.scopes

    def _name_versions(self, longest: int) -> None:
        """Gives each version of a tool that has several a name of its own, in the order of ids."""
        for family in self._by_tool.values():
            if isinstance(family, PublishedTool):
                continue
            for tool in family.ascending:
                definition = tool.definition
                name = version_name(definition.name, definition.version, longest)
                if name in self._by_name:
                    name = digest_name(tool.id, longest)
                self._by_name.setdefault(name, tool)
                self._version_names[tool.id] = name


class ToolChange(NamedTuple):
    """How tools of a toolkit changed: the scopes they needed and need, None where they were or are not there."""

    toolkit: str
    before: frozenset[str] | None
    after: frozenset[str] | None
    is_same: bool  # but for the scopes

    def concerns(self, scopes: frozenset[str], toolkit: str | None) -> bool:
        """Whether a caller with these scopes sees the change in that toolkit, or in any."""
        if toolkit is not None and toolkit != self.toolkit:
            return False
        saw = self.before is not None and self.before <= scopes
        sees = self.after is not None and self.after <= scopes
        return saw != sees or (sees and not self.is_same)


def tool_changes(before: Router, after: Router) -> frozenset[ToolChange]:
    """How the tools of one snapshot became those of another, each kind of change once."""
    old, new = ({tool.id: tool for tool in router.tools} for router in (before, after))
    changes = set()
    for id_ in old.keys() | new.keys():
        was, is_ = old.get(id_), new.get(id_)
        if was is not is_:
            is_same = was is not None and is_ is not None and was.listed == is_.listed
            toolkit = id_.partition(".")[0]
            changes.add(ToolChange(toolkit, _scopes_of(was), _scopes_of(is_), is_same))
    return frozenset(changes)


def _scopes_of(tool: PublishedTool | None) -> frozenset[str] | None:
    return None if tool is None else tool.route.scopes


def _families(tools: Iterable[tuple[str, PublishedTool]]) -> dict[str, PublishedTool | _Versions]:
    families: dict[str, PublishedTool | _Versions] = {}
    several: dict[str, list[PublishedTool]] = {}
    for key, tool in tools:
        first = families.setdefault(key, tool)
        if first is not tool:
            several.setdefault(key, [*first.ascending]).append(tool)
    families.update((key, _Versions(members)) for key, members in several.items())
    return families


def _no_such_tool(ref: ToolRef) -> GatewayError:
    return GatewayError(ErrorCode.TOOL_NOT_FOUND, f"There is no tool {ref.tool!r}.")


def _forbidden(ref: ToolRef, tool: PublishedTool) -> GatewayError:
    tool_id = ref.tool if ref.version is None else f"{ref.tool}@{ref.version}"
    return InsufficientScopeError(f"You may not use {tool_id!r}.", tool.route.scopes)


def _no_such_version(ref: ToolRef, usable: Sequence[str]) -> GatewayError:
    """Names only versions the caller may use, ascending: what is hidden in the listing stays hidden here."""
    newest = ", ".join(reversed(usable[-MAX_VERSIONS_TOLD:]))
    return GatewayError(
        ErrorCode.TOOL_NOT_FOUND,
        f"The tool {ref.tool!r} has no version {ref.version}.",
        developer_message=f"Its newest versions are {newest}." if newest else None,
    )
