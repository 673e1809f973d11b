"""Questions of the console between the supervisor and its workers, in both directions over the control connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from gateway.console.view import RefusedQuestionError, View
from gateway.core.model import JsonObject

ANSWER_S = 10.0  # for an answer; a process that is busy for longer has no console at the moment
OK = 200


class RpcRequest(NamedTuple):
    """Asks the other end (see `console.view`)."""

    name: str
    about: JsonObject


class RpcReply(NamedTuple):
    """Answers its question of that number. With a status other than OK it was refused, and the body says why."""

    number: int
    status: int
    body: JsonObject


class PendingRpcs:
    """The questions whose answers have not come yet."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[JsonObject]] = {}

    async def ask(self, send: Callable[[int], None]) -> JsonObject:
        """Sends a question by its number and waits for the answer. Raises RefusedQuestionError."""
        number = next(self._numbers)
        waiting: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            send(number)
            async with asyncio.timeout(ANSWER_S):
                return await waiting
        except TimeoutError as exc:
            raise RefusedQuestionError(503, f"A process of the gateway gave no answer within {ANSWER_S:g} s.") from exc
        finally:
            del self._waiting[number]

    def settle(self, answer: RpcReply) -> None:
        """Hands an answer to who waits for it."""
        waiting = self._waiting.get(answer.number)
        if waiting is None or waiting.done():
            return
        if answer.status == OK:
            waiting.set_result(answer.body)
        else:
            waiting.set_exception(RefusedQuestionError(answer.status, str(answer.body["message"])))

    def refuse_all(self) -> None:
        """Refuses all questions, because the other end is gone."""
        for number in list(self._waiting):
            self.settle(RpcReply(number, 503, {"message": "A process of the gateway has just ended; try again."}))


async def reply_to(number: int, question: RpcRequest, view: View) -> RpcReply:
    """What a view says to a question of the other end."""
    try:
        return RpcReply(number, OK, await view.ask(*question))
    except RefusedQuestionError as refused:
        return RpcReply(number, refused.status, {"message": str(refused)})
