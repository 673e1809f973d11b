"""One caller's wish for a kept call, and its run in this process, which outlives the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from gateway.admission import NotDispatchedError
from gateway.calls.preference import Preference
from gateway.calls.status import unavailable
from gateway.errors import GatewayError
from gateway.model import Invocation, ToolCall, ToolResult
from gateway.ports import Caller
from gateway.routing import PublishedTool
from gateway.state.port import AWAITING_USER, DISPATCHING, DONE, REGISTERED, Record, State, StateUnavailable

SLACK_S = 5.0  # beyond a timeout, for whatever ends the call then

Ending = ToolResult | GatewayError | None  # None: its record tells, later


class CallRequest(Struct, frozen=True, kw_only=True):
    """Who asks for what and how. `invocation` lacks nothing but its call id; `keep` is as in `Request.served`."""

    call: ToolCall
    tool: PublishedTool
    caller: Caller
    invocation: Invocation
    preference: Preference
    dialect: str
    wire_version: str
    keep: Callable[[], asyncio.Task[Any]] | None = None

    @property
    def ends_with_caller(self) -> bool:
        """Whether nobody could ask for it once its caller has left: it was given no id, and none was to be answered."""
        return self.call.call_id is None and self.tool.backend.deferred and not self.preference.respond_async

    @property
    def stays(self) -> bool:
        """Whether the caller waits for as long as the tool may take."""
        preferred = self.preference.wait_s
        return not self.preference.respond_async if preferred is None else preferred >= self.invocation.timeout_s

    @property
    def patience_s(self) -> float:
        """How long the caller is kept waiting at most."""
        if not self.stays:
            return self.preference.wait_s or 0.0
        ends_in_time = not self.tool.backend.deferred or self.tool.route.cancel_on_timeout
        return self.invocation.timeout_s + (SLACK_S if ends_in_time else 0.0)


def tells_more(record: Record | None) -> bool:
    """Whether a record has the outcome of its call, or a consent that it needs."""
    return record is not None and record.state in (AWAITING_USER, DONE)


class Execution(Struct, eq=False):
    """A call that runs here, in a `task` that outlives its caller; to its backend it is a `Turn`."""

    key: str
    state: State
    task: asyncio.Task[Any] | None = None
    ending: Ending = None
    is_left: bool = False  # its caller was told no more than that it runs
    answered: bool = False  # its outcome has come, or a consent that it needs
    _stopped: bool = False
    _heard: asyncio.Future[None] | None = None  # of whoever waits

    async def wait(self, timeout_s: float | None) -> Ending:
        """Waits for the end; None if that does not come in time, or the record tells more than that it runs before.

        A caller who leaves meanwhile does not end the call.
        """
        assert self.task is not None  # started by whoever waits
        loop = self.task.get_loop()
        self._heard = loop.create_future()
        timer = None if timeout_s is None else loop.call_later(timeout_s, self.hear)
        self.task.add_done_callback(self.hear)
        try:
            await self._heard  # `asyncio.wait` for the two of them costs several times as much
        finally:
            self.task.remove_done_callback(self.hear)
            if timer is not None:
                timer.cancel()
        self.is_left = not self.task.done()
        return self.ending

    def hear(self, _: object = None) -> None:
        """Ends the waiting: there is nothing to wait for any more, or its record tells more than that it runs."""
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(None)

    async def is_answered(self) -> bool:
        """Whether its record tells more than that it runs; False while nobody can say."""
        with suppress(StateUnavailable):
            return tells_more(await self.state.get(self.key))
        return False

    async def on_queued(self) -> None:
        """Lets any replica send it, should this one die meanwhile."""
        with suppress(StateUnavailable):  # then nobody else will
            await self.state.advance(self.key, (DISPATCHING,), REGISTERED)

    async def before_send(self) -> None:
        """Sees to it that nobody else sends it. Raises GivenUpError; BACKEND_UNAVAILABLE while nobody can say."""
        try:
            is_ours = await self.state.advance(self.key, (REGISTERED, DISPATCHING), DISPATCHING)
        except StateUnavailable as exc:
            raise unavailable() from exc
        if not is_ours:
            raise NotDispatchedError

    def stop(self, ending: Ending) -> None:
        """Ends it in the middle: the connection to the tool server is closed."""
        self.ending, self._stopped = ending, True
        if self.task is not None:
            self.task.cancel()

    def was_stopped(self) -> bool:
        """Whether its task was cancelled by `stop`; then that is taken back, for the task may be that of a request."""
        if self._stopped and self.task is not None:
            self.task.uncancel()
        return self._stopped
