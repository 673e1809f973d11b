"""The view of several processes: what each worker knows, put together, and what only the supervisor knows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from gateway.console import backends, overview
from gateway.console.calls import MAX_SHOWN
from gateway.console.configuration import ConfigurationPage
from gateway.console.history import History
from gateway.console.local import with_calls
from gateway.console.log import MAX_LINES
from gateway.console.view import Answering, RefusedQuestionError, text_of
from gateway.core.model import Json, JsonObject
from gateway.metrics import Metrics
from gateway.settings import Config

BETWEEN = ":"  # the number of a worker and what is its own


class ConsoleWorker(Protocol):
    """A worker, by its number; `is_there` while it serves."""

    number: int

    @property
    def is_there(self) -> bool: ...

    async def ask(self, question: str, about: JsonObject) -> JsonObject:
        """As `View.ask`."""
        ...

    def about(self) -> JsonObject:
        """Its number, process and status."""
        ...


class SupervisorView(Answering):
    """Answers for all workers."""

    def __init__(
        self,
        workers: Sequence[ConsoleWorker],
        metrics: Metrics,
        history: History,
        *,
        status: Callable[[], str],
        config: Callable[[], Config],
        file: Path | None,
    ) -> None:
        self._workers = workers
        self._metrics = metrics
        self._history = history
        self._status = status
        self._config = config
        self._configuration = ConfigurationPage(file)
        self._answers = {
            "session": self._session,
            "overview": self._overview,
            "backends": self._backends,
            "refresh": self._refresh,
            "tools": self._asking_one("tools"),
            "tool": self._tool,
            "calls": self._calls,
            "cancel": self._cancel,
            "log": self._log,
            "configuration": self._read_configuration,
        }

    def _there(self) -> Iterator[ConsoleWorker]:
        return (worker for worker in self._workers if worker.is_there)

    async def _ask_one(self, question: str, about: JsonObject) -> JsonObject:
        """The answer of any worker. Raises RefusedQuestionError."""
        for worker in self._there():
            return await worker.ask(question, about)
        raise RefusedQuestionError(503, "No worker of the gateway serves at the moment.")

    def _asking_one(self, question: str) -> Callable[[JsonObject], Awaitable[JsonObject]]:
        async def ask(about: JsonObject) -> JsonObject:
            return await self._ask_one(question, about)

        return ask

    async def _ask_all(self, question: str, about: JsonObject) -> list[tuple[ConsoleWorker, JsonObject]]:
        """The answers of the workers that have one. Raises RefusedQuestionError if none has."""
        there = list(self._there())
        answers = await asyncio.gather(*(worker.ask(question, about) for worker in there), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, RefusedQuestionError):
                raise answer
        answered = [
            (worker, answer)
            for worker, answer in zip(there, answers, strict=True)
            if not isinstance(answer, BaseException)
        ]
        if not answered:
            refusals = [answer for answer in answers if isinstance(answer, RefusedQuestionError)]
            raise refusals[0] if refusals else RefusedQuestionError(503, "No worker serves at the moment.")
        return answered

    async def _session(self, about: JsonObject) -> JsonObject:
        """Each worker gets to know that somebody looks."""
        _, session = (await self._ask_all("session", about))[0]
        return session

    async def _overview(self, about: JsonObject) -> JsonObject:
        answers = [answer for _, answer in await self._ask_all("overview", about)]
        own = overview.about_process(self._status(), self._metrics, self._history)
        return answers[0] | own | {
            "workers": [worker.about() for worker in self._workers],
            "replicas": _replicas(answers),
        }  # fmt: skip

    async def _backends(self, about: JsonObject) -> JsonObject:
        return backends.merged([answer for _, answer in await self._ask_all("backends", about)])

    async def _refresh(self, about: JsonObject) -> JsonObject:
        await self._ask_all("refresh", about)
        return {}

    async def _tool(self, about: JsonObject) -> JsonObject:
        pages = [page for _, page in await self._ask_all("tool_facts", about)]
        seconds = [duration for page in pages for duration in page["seconds"]]
        return with_calls(pages[0] | {"seconds": seconds}, self._metrics)

    async def _calls(self, about: JsonObject) -> JsonObject:
        answers = await self._ask_all("calls", about)
        calls = [_marked(call, "id", worker) for worker, answer in answers for call in answer["calls"]]
        calls.sort(key=lambda call: -call["age_s"])
        return {"calls": calls[:MAX_SHOWN], "total": sum(answer["total"] for _, answer in answers)}

    async def _cancel(self, about: JsonObject) -> JsonObject:
        number, _, id_ = text_of(about, "id").partition(BETWEEN)
        for worker in self._there():
            if str(worker.number) == number:
                return await worker.ask("cancel", {"id": id_})
        return {"is_cancelled": False}

    async def _log(self, about: JsonObject) -> JsonObject:
        """The cursor has that of each worker; one that has been replaced since begins anew."""
        cursors = dict(part.partition(BETWEEN)[::2] for part in text_of(about, "after").split("-"))
        there = list(self._there())
        asking = (worker.ask("log", {"after": cursors.get(str(worker.number), "")}) for worker in there)
        answers = dict(zip(there, await asyncio.gather(*asking, return_exceptions=True), strict=True))
        lines: list[JsonObject] = []
        for worker, answer in answers.items():
            if isinstance(answer, BaseException):
                continue
            lines += [_marked(line, "key", worker) for line in answer["lines"]]
            cursors[str(worker.number)] = answer["cursor"]
        lines.sort(key=lambda line: line["time"])
        cursor = "-".join(f"{number}{BETWEEN}{cursor}" for number, cursor in cursors.items() if number)
        return {"lines": lines[-MAX_LINES:], "cursor": cursor}

    async def _read_configuration(self, about: JsonObject) -> JsonObject:
        return await asyncio.to_thread(self._configuration.as_json, self._config(), self._metrics)


def _marked(what: JsonObject, name: str, worker: ConsoleWorker) -> JsonObject:
    """With the worker's number before a name that is unique within the worker."""
    return what | {name: f"{worker.number}{BETWEEN}{what[name]}"}


def _replicas(answers: Sequence[JsonObject]) -> list[Json]:
    """The replicas that any worker knows; each worker is one."""
    replicas: dict[str, JsonObject] = {}
    for answer in answers:
        for replica in answer["replicas"]:
            before = replicas.setdefault(replica["name"], replica)
            replicas[replica["name"]] = before | {"is_this": before["is_this"] or replica["is_this"]}
    return sorted(replicas.values(), key=lambda replica: (not replica["is_this"], replica["name"]))
