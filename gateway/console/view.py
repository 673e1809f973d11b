"""What the pages of the console ask, and who answers: a gateway, or the supervisor of several processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from gateway.core.model import JsonObject

PRINCIPAL = "toolgate.console.principal"  # where in the scope is who has logged in


class RefusedQuestionError(Exception):
    """A question without an answer. `status` is that of HTTP, the message a sentence for people."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class View(Protocol):
    """Answers questions. Their names are the paths below `/console/api/`; what they return is what the pages get."""

    async def ask(self, question: str, about: JsonObject) -> JsonObject:
        """Answers; `about` are the parameters of the question. Raises RefusedQuestionError."""
        ...


Answers = Mapping[str, Callable[[JsonObject], Awaitable[JsonObject]]]


class Answering:
    """A view that has a function for each question."""

    def __init__(self) -> None:
        self._answers: Answers = {}

    async def ask(self, question: str, about: JsonObject) -> JsonObject:
        """As `View.ask`."""
        answer = self._answers.get(question)
        if answer is None:
            raise RefusedQuestionError(404, "There is nothing here.")
        return await answer(about)


def text_of(about: JsonObject, name: str) -> str:
    """A parameter that is text; empty if it is not given. Raises RefusedQuestionError."""
    value = about.get(name, "")
    if not isinstance(value, str):
        raise RefusedQuestionError(400, f"{name} must be text.")
    return value


def number_of(about: JsonObject, name: str, default: int, most: int) -> int:
    """A parameter that is a whole number from 0 to `most`, in digits. Raises RefusedQuestionError."""
    text = text_of(about, name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
        raise RefusedQuestionError(400, f"{name} must be a number from 0 to {most}.")
    return int(text)
