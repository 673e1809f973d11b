"""The catalogue, searched as one types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.assembly.generation import Generation
from gateway.catalogue.published import PublishedTool
from gateway.catalogue.routing import Router
from gateway.console.view import number_of, text_of
from gateway.core.model import JsonObject, Requirements

MAX_PAGE = 500
MAX_SUMMARY = 200  # characters of a description
MAX_QUERY = 200
KINDS = {"user_id": "user", "secrets": "secret", "authorization": "consent"}


class _ToolEntry(NamedTuple):
    """A tool in its newest version; `text` is what is searched, in lower case."""

    tool: PublishedTool
    versions: int
    name: str
    text: str


class ToolSearch:
    """Searches the tools of the newest snapshot, whose texts are prepared once."""

    def __init__(self) -> None:
        self._router: Router | None = None
        self._entries: Sequence[_ToolEntry] = ()

    def find(self, generation: Generation, about: JsonObject) -> JsonObject:
        """A page of the tools that have every word of `q`; those whose name has them come first.

        Raises RefusedQuestionError.
        """
        words = text_of(about, "q")[:MAX_QUERY].casefold().split()
        backend = text_of(about, "backend")
        offset, limit = number_of(about, "offset", 0, 10_000_000), number_of(about, "limit", 100, MAX_PAGE)
        entries = self._all(generation.catalogue.router)
        fits = [each for each in entries if not backend or each.tool.route.backend_name == backend]
        if words:
            fits = [each for each in fits if all(word in each.text for word in words)]
            fits.sort(key=lambda each: _rank(each.name, words))
        page = fits[offset : offset + limit]
        protocols = {name: settings.protocol for name, settings in generation.config.backends.items()}
        return {"all": len(entries), "total": len(fits), "tools": [_row(each, protocols) for each in page]}

    def _all(self, router: Router) -> Sequence[_ToolEntry]:
        if self._router is not router:
            families: dict[str, list[PublishedTool]] = {}
            for tool in router.tools:  # by tool and ascending version
                families.setdefault(tool.definition.tool, []).append(tool)
            self._router, self._entries = router, [_entry(versions) for versions in families.values()]
        return self._entries


def _entry(versions: Sequence[PublishedTool]) -> _ToolEntry:
    newest = versions[-1]
    definition, route = newest.definition, newest.route
    name = definition.tool.casefold()
    text = f"{name}\n{definition.description.casefold()}\n{route.backend_name.casefold()}"
    return _ToolEntry(newest, len(versions), name, text)


def _rank(name: str, words: Sequence[str]) -> int:
    """0 for a name that begins with the first word, 1 for one that has every word, else 2."""
    if name.startswith(words[0]) or f".{words[0]}" in name:
        return 0
    return 1 if all(word in name for word in words) else 2


def _row(entry: _ToolEntry, protocols: Mapping[str, str]) -> JsonObject:
    tool = entry.tool
    definition = tool.definition
    return {
        "name": definition.tool,
        "version": definition.version,
        "versions": entry.versions,
        "backend": tool.route.backend_name,
        "protocol": protocols[tool.route.backend_name],
        "summary": summary(definition.description),
        "requires": _kinds(definition.requires),
        "scopes": sorted(tool.route.scopes),
    }


def summary(description: str) -> str:
    """The first line of a description, cut."""
    line = description.strip().partition("\n")[0]
    return line if len(line) <= MAX_SUMMARY else f"{line[:MAX_SUMMARY]}…"


def _kinds(requires: Requirements) -> list[str]:
    return [word for name, word in KINDS.items() if getattr(requires, name)]
