"""The calls that run or wait in this process, and their end at an operator's word.

Calls that leave a record are found in the state, all others by the requests whose callers wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from time import perf_counter

from gateway.calls.records import metadata_of
from gateway.calls.stored_calls import StoredCalls
from gateway.console.view import RefusedQuestionError, text_of
from gateway.core.errors import StateUnavailable
from gateway.core.model import JsonObject, public_id
from gateway.pipeline.request import Request
from gateway.state.port import ACCEPTED, AWAITING_USER, REGISTERED, Record, State

MAX_SHOWN = 500
MAX_WORD = 256  # characters of a caller's own words
STATES = {REGISTERED: "queued", ACCEPTED: "accepted", AWAITING_USER: "awaiting_user"}


class RunningCalls:
    """Shows and ends calls. `requests` are those under way in this process, `earlier` finds calls that are kept."""

    def __init__(
        self,
        state: State,
        earlier: StoredCalls,
        requests: Collection[Request],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._earlier = earlier
        self._requests = requests
        self._clock = clock

    def as_json(self) -> JsonObject:
        """The oldest calls, and how many there are."""
        callers = {request.call_id: request.caller.principal for request in self._requests if _is_awaited(request)}
        shown = [self._kept(record, callers) for record in self._state.unfinished() if record.note]
        shown += [self._plain(request) for request in self._requests if _has_no_record(request)]
        shown.sort(key=lambda call: -call["age_s"])
        return {"calls": shown[:MAX_SHOWN], "total": len(shown)}

    def _kept(self, record: Record, callers: Mapping[str | None, str]) -> JsonObject:
        """A call with a record. `callers` are those who wait here, by the ids they gave their calls."""
        metadata = metadata_of(record)
        tool, _, version = metadata.tool.partition("@")
        own_id = None if metadata.call_id == public_id(record.key) else metadata.call_id
        age_s = max(0.0, self._clock() - metadata.begun_s) if metadata.begun_s else 0.0
        return {
            "id": public_id(record.key),
            "state": STATES.get(record.state, "running"),
            "tool": tool,
            "version": version,
            "backend": record.backend,
            "caller": _word(metadata.account if own_id is None else callers.get(own_id, metadata.account)),
            "dialect": metadata.dialect,
            "began_at": self._clock() - age_s,
            "age_s": round(age_s, 3),
            "call_id": None if own_id is None else _word(own_id),
        }

    def _plain(self, request: Request) -> JsonObject:
        assert request.tool is not None
        target, age_s = request.tool.target, perf_counter() - request.started
        return {
            "id": request.toolgate_call_id,
            "state": "running",
            "tool": target.tool,
            "version": target.version,
            "backend": target.backend,
            "caller": _word(request.caller.principal),
            "dialect": "" if request.encoder is None else request.encoder.name,
            "began_at": self._clock() - age_s,
            "age_s": round(age_s, 3),
            "call_id": None if request.call_id is None else _word(request.call_id),
        }

    async def cancel(self, about: JsonObject) -> JsonObject:
        """Ends a call by its id in the list; the caller who waits for it is told that it was cancelled.

        Raises RefusedQuestionError.
        """
        id_ = text_of(about, "id")
        for record in self._state.unfinished():
            if public_id(record.key) == id_:
                try:
                    return {"is_cancelled": await self._earlier.end(record)}
                except StateUnavailable as exc:
                    raise RefusedQuestionError(503, "The state cannot be reached; try again.") from exc
        for request in self._requests:
            if _has_no_record(request) and request.toolgate_call_id == id_ and not request.is_cancelled:
                assert request.server_request is not None
                assert request.server_request.task is not None
                request.is_cancelled = True
                request.server_request.task.cancel()
                return {"is_cancelled": True}
        return {"is_cancelled": False}


def _is_awaited(request: Request) -> bool:
    """Whether a caller of our own server waits for the answer."""
    return request.server_request is not None and not request.server_request.disconnected


def _has_no_record(request: Request) -> bool:
    """Whether it is a call that is found by its request alone, from when it has an id: it runs, or waits to run.

    The pipeline does not count a request whose call is kept.
    """
    is_call = request.tool is not None and request.operation == "call" and _is_awaited(request)
    return is_call and request.counts and request.refusal is None and bool(request.toolgate_call_id)


def _word(text: str) -> str:
    return text[:MAX_WORD]
