"""How a module registers its checks of tool servers, and the dialects that they apply to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from gateway.conformance.checks import Check, Level
from gateway.conformance.rest.server import FORMS, Form, RestServer

MUST, SHOULD, GOOD = Level
ALL = frozenset(FORMS)
NEW = frozenset({"otc", "rfc", "oxp", "oxp-env"})  # as specified; the LangChain form is as its programs do it
ENVELOPED = frozenset({"otc", "rfc", "oxp-env"})
HEADER = frozenset({"oxp"})

RunCheck = Callable[[RestServer], Awaitable[None]]


class Entry(Struct, frozen=True):
    """A check for the dialects in `forms`; each dialect has it under an id of its own."""

    number: int
    level: Level
    title: str
    page: str
    remedy: str
    forms: frozenset[str]
    run: RunCheck

    def check_for(self, form: Form) -> Check:
        """The check of one dialect, such as OXP-040."""
        id_ = f"{form.prefix}-{self.number:03d}"
        return Check(id_, self.level, self.title, f"{form.source}, {self.page}", self.remedy, self.run)


class Registry:
    """The checks of one module: each is a function that `@check(number, level, title, ...)` decorates."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __call__(
        self, number: int, level: Level, title: str, *, page: str, remedy: str, forms: frozenset[str] = ALL
    ) -> Callable[[RunCheck], RunCheck]:
        """Registers a check; `page` is the page of the specification that it follows."""

        def add(run: RunCheck) -> RunCheck:
            self.entries.append(Entry(number, level, title, page, remedy, forms, run))
            return run

        return add
