"""How a module registers its checks of clients, and the dialects that they apply to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from toolgate_conformance.checks import Check, Level
from toolgate_conformance.clients.subject import ClientSubject
from toolgate_conformance.rest import FORMS, Form

MUST, SHOULD, GOOD = Level
ALL = frozenset(FORMS)
SPECIFIED = frozenset({"otc", "rfc", "oxp", "oxp-env"})  # unlike the LangChain form, which its programs define
REQUIRING = frozenset({"otc", "oxp", "oxp-env"})  # whose tools declare requirements
CHALLENGING = frozenset({"oxp", "oxp-env"})  # whose servers send users to a page
NOBODY: frozenset[str] = frozenset()

Judge = Callable[..., None]  # takes what was seen in each scenario, in their order


class Entry(Struct, frozen=True):
    """A check of what a client does in some scenarios, for the dialects in `forms`; in those in `silent` it is GOOD."""

    number: int
    level: Level
    title: str
    page: str
    remedy: str
    scenarios: Sequence[str]
    forms: frozenset[str]
    silent: frozenset[str]
    judge: Judge

    def id_for(self, form: Form) -> str:
        """That of a check of servers, with a C: OXPC-010."""
        return f"{form.prefix}C-{self.number:03d}"

    def check_for(self, form: Form) -> Check:
        """The check for clients of one dialect."""

        async def run(subject: ClientSubject) -> None:
            self.judge(*await asyncio.gather(*(subject.seen(name) for name in self.scenarios)))

        level = GOOD if form.name in self.silent else self.level
        return Check(self.id_for(form), level, self.title, f"{form.source}, {self.page}", self.remedy, run)


class Registry:
    """The checks of one module: each is a function that `@check(number, level, title, scenarios, ...)` decorates."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __call__(
        self,
        number: int,
        level: Level,
        title: str,
        *scenarios: str,
        page: str,
        remedy: str,
        forms: frozenset[str] = ALL,
        silent: frozenset[str] = NOBODY,
    ) -> Callable[[Judge], Judge]:
        """Registers a check; `page` is the page of the specification that it follows.

        `silent` are dialects whose specification does not recommend this: there the level is GOOD.
        """

        def add(judge: Judge) -> Judge:
            self.entries.append(Entry(number, level, title, page, remedy, scenarios, forms, silent, judge))
            return judge

        return add
