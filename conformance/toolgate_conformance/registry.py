"""How a module registers its checks, and how those of a protocol are put together."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, Concatenate, Generic, TypeVar

from msgspec import Struct

from toolgate_conformance.checks import Check, Level

MUST, SHOULD, GOOD = Level
ALL: frozenset[str] = frozenset()  # dialects
NONE: frozenset[str] = frozenset()

SubjectT = TypeVar("SubjectT")


class Entry(Struct, frozen=True):
    """A check before it is known for which dialect it is made."""

    number: int
    level: Level
    section: str
    title: str
    remedy: str
    scenarios: Sequence[str]  # that a client is to be seen in; none for a server
    forms: frozenset[str]  # the dialects that it applies to; empty for all
    silent: frozenset[str]  # the dialects whose specification does not say so: there the level is GOOD
    run: Callable[[Any], Awaitable[None]]


class Registry(Generic[SubjectT]):
    """The checks of one module: each is a function that `@check(number, level, section)` decorates.

    The first line of its docstring is the title, and what follows `Fix:` the remedy. A check of a server is a coroutine
    function that gets the server. One of a client gets what was seen in the scenarios that its parameters name.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __call__(
        self, number: int, level: Level, section: str, *, forms: frozenset[str] = ALL, silent: frozenset[str] = NONE
    ) -> Callable[[Callable[Concatenate[SubjectT, ...], Any]], Callable[Concatenate[SubjectT, ...], Any]]:
        """Registers a check; `section` is the place in the specification that it follows."""

        def add(function: Callable[Concatenate[SubjectT, ...], Any]) -> Callable[Concatenate[SubjectT, ...], Any]:
            title, _, remedy = (inspect.getdoc(function) or "").partition("\n\nFix: ")
            is_of_server = inspect.iscoroutinefunction(function)
            scenarios = (
                [] if is_of_server else [name.replace("_", "-") for name in inspect.signature(function).parameters]
            )
            run = function if is_of_server else _on_scenarios(function, scenarios)
            words = title.removesuffix("."), " ".join(remedy.split())
            self.entries.append(Entry(number, level, section, *words, scenarios, forms, silent, run))
            return function

        return add


def _on_scenarios(judge: Callable[..., None], scenarios: Sequence[str]) -> Callable[[Any], Awaitable[None]]:
    async def run(program: Any) -> None:
        judge(*await asyncio.gather(*(program.seen(name) for name in scenarios)))

    return run


def checks_of(modules: Iterable[ModuleType], prefix: str, source: str = "", form: str = "") -> list[Check]:
    """The checks of some modules, sorted by id, for a protocol or one dialect of it.

    Ids begin with `prefix`; sections with `source`, the name of the specification, if there is only one.
    """
    entries: list[Entry] = [entry for module in modules for entry in module.check.entries]
    checks = [
        Check(
            id=f"{prefix}-{entry.number:03d}",
            level=GOOD if form in entry.silent else entry.level,
            title=entry.title,
            section=f"{source}, {entry.section}" if source else entry.section,
            remedy=entry.remedy,
            run=entry.run,
            scenarios=entry.scenarios,
        )
        for entry in entries
        if form in entry.forms or not entry.forms
    ]
    return sorted(checks, key=lambda check: check.id)
