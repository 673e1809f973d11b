"""How a module registers its checks, and the dialects that they apply to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from gateway.conformance.checks import Check, Level
from gateway.conformance.rest.forms import FORMS, Form
from gateway.conformance.rest.server import RestServer

MUST, SHOULD, GOOD = Level
ALL = frozenset(FORMS)
SPECIFIED = frozenset({"otc", "rfc", "oxp", "oxp-env"})  # unlike the LangChain form, which its programs define
ENVELOPED = frozenset({"otc", "rfc", "oxp-env"})  # whose bodies state the version in `$schema`
HEADER = frozenset({"oxp"})  # whose version is in the header OXP-Version

RunCheck = Callable[[RestServer], Awaitable[None]]


class Entry(Struct, frozen=True):
    """A check of a tool server, for the dialects in `forms`."""

    number: int
    level: Level
    title: str
    page: str
    remedy: str
    forms: frozenset[str]
    run: RunCheck

    def check_for(self, form: Form) -> Check:
        """The check for tool servers of one dialect, such as OXP-010."""
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
