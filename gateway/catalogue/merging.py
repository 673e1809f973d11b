"""Makes one snapshot of what all backends list: which tools callers have, and under which names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gateway.catalogue.evaluation import Evaluation, ToolSource
from gateway.catalogue.ownership import Holder, Owners
from gateway.catalogue.published import PublishedTool
from gateway.catalogue.routing import Router
from gateway.core.model import Rejected, ToolDefinition, ToolRef
from gateway.core.ports import Caller
from gateway.core.tool_names import MAX_NAME_LENGTH, digest_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A snapshot of all evaluations."""

    router: Router
    published: Mapping[str, int]  # how many tools of each backend are published,
    shadowed: Mapping[str, Sequence[Rejected]]  # which are not, because they are those of others,
    renamed: Mapping[str, Sequence[Rejected]]  # and which have another name than usual


def merge(
    evaluations: Sequence[tuple[ToolSource, Evaluation]], unlisted: Callable[[ToolRef, Caller], str | None]
) -> Merged:
    """Makes a snapshot of all evaluations. `unlisted` as in Router.

    Each tool is that of its owner (see `ownership`). Of two tools with one name that of the earlier route keeps it, of
    one route the first by id; the other has a digest in its name.
    """
    longest = min((source.longest_name for source, _ in evaluations), default=MAX_NAME_LENGTH)
    contenders = [
        (entry.route, entry.tool.id, source.name, entry.tool)
        for source, evaluation in evaluations
        for entry in evaluation.by_id.values()
        if entry.tool is not None
    ]
    contenders.sort()  # a backend's ids are unique, and so are its routes: no two tools are compared
    owners = Owners(evaluations, longest)
    names = _UniqueNames(owners, longest)
    published: list[PublishedTool] = []
    won: Counter[str] = Counter()
    shadowed: defaultdict[str, list[Rejected]] = defaultdict(list)
    renamed: defaultdict[str, list[Rejected]] = defaultdict(list)
    for position, id_, backend, tool in contenders:
        definition, mine, reason = tool.definition, None, None
        if owners.is_disputed(definition.tool):
            mine = Holder(position, backend, tool.route, definition.tool)
            reason = owners.trouble(mine, definition.version)
        name, why = names.take(definition, mine) if reason is None else (None, reason)
        if name is None:
            shadowed[backend].append(Rejected(id=id_, reason=why))
            continue
        if name != definition.name:
            renamed[backend].append(Rejected(id=id_, reason=why))
            tool = tool.with_name(name)
        published.append(tool)
        won[backend] += 1
    router = Router(published, unlisted, longest_name=longest)
    return Merged(router=router, published=won, shadowed=shadowed, renamed=renamed)


class _UniqueNames:
    """Gives each tool a name of its own."""

    def __init__(self, owners: Owners, longest: int) -> None:
        self._owners = owners
        self._longest = longest
        self._taken: dict[str, str] = {}  # the tools that have each name

    def take(self, definition: ToolDefinition, disputed: Holder | None) -> tuple[str | None, str]:
        """The name of a tool, None if it can have none, and why it is not the usual one."""
        usual, tool = definition.name, definition.tool
        owner = self._taken.get(usual)
        if owner == tool:
            return usual, ""
        why = None if owner is None else f"{owner} has the name {usual!r}"
        if why is None and disputed is not None:
            why = self._owners.name_trouble(usual, disputed)
        if why is None:
            self._taken[usual] = tool
            return usual, ""
        name = digest_name(tool, self._longest)
        if self._taken.setdefault(name, tool) != tool:
            return None, f"{why}, and {self._taken[name]} the one it would have instead."
        return name, f"{why}, so its name is {name!r}."
