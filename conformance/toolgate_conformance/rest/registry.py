"""How a module registers its checks, and the dialects that they apply to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from toolgate_conformance.checks import Check, Level
from toolgate_conformance.rest.forms import FORMS, Form
from toolgate_conformance.rest.server import RestServer

MUST, SHOULD, GOOD = Level
ALL = frozenset(FORMS)
SPECIFIED = frozenset({"otc", "rfc", "oxp", "oxp-env"})  # unlike the LangChain form, which its programs define
WITH_IDS = SPECIFIED - {"rfc"}  # whose definitions have the version, and the output schema, as members of their own
ENVELOPED = frozenset({"otc", "rfc", "oxp-env"})  # whose bodies state the version in `$schema`
HEADER = frozenset({"oxp"})  # whose version is in the header OXP-Version
CHALLENGING = frozenset({"oxp", "oxp-env"})  # whose refusals have `missing_requirements`
RFC = frozenset({"rfc"})
NOBODY: frozenset[str] = frozenset()

RunCheck = Callable[[RestServer], Awaitable[None]]


class Entry(Struct, frozen=True):
    """A check of a tool server, for the dialects in `forms`; in those in `silent` it is only good practice."""

    number: int
    level: Level
    title: str
    page: str
    remedy: str
    forms: frozenset[str]
    silent: frozenset[str]
    run: RunCheck

    def check_for(self, form: Form) -> Check:
        """The check for tool servers of one dialect, such as OXP-010."""
        id_ = f"{form.prefix}-{self.number:03d}"
        level = GOOD if form.name in self.silent else self.level
        return Check(id_, level, self.title, f"{form.source}, {self.page}", self.remedy, self.run)


class Registry:
    """The checks of one module: each is a function that `@check(number, level, title, ...)` decorates."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __call__(
        self,
        number: int,
        level: Level,
        title: str,
        *,
        page: str,
        remedy: str,
        forms: frozenset[str] = ALL,
        silent: frozenset[str] = NOBODY,
    ) -> Callable[[RunCheck], RunCheck]:
        """Registers a check; `page` is the page of the specification that it follows.

        `silent` are dialects whose specification does not demand this: there the level is GOOD.
        """

        def add(run: RunCheck) -> RunCheck:
            self.entries.append(Entry(number, level, title, page, remedy, forms, silent, run))
            return run

        return add
