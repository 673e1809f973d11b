"""Callback URLs: which calls they are for, who can have made them, and how what is posted to them is read."""

from __future__ import annotations

import re
import string
import time
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.calls.backlog import MAX_BYTES, Backlog
from gateway.calls.records import CallMetadata, DeferredCall, pack_metadata
from gateway.core.errors import ErrorCode, StateUnavailable
from gateway.core.model import CallKey
from gateway.core.sealing import Digester
from gateway.core.wire import Head
from gateway.pipeline.callbacks import Callbacks, CallbackTokens
from gateway.pipeline.request import Request
from gateway.protocols.otc.surface import REST
from gateway.protocols.rap.messages import is_message
from gateway.state.memory import MemoryState
from gateway.state.port import NewCall, State, StateLimits
from tests.unit.desk import desk

OLD, NEW = "the key that was there before, of enough characters", "the key that replaces it, of enough characters too"
CALL = CallKey("0123456789abcdef0123456789abcdef01234567")
RUN = "f0e1d2c3b4a5968778695a4b3c2d1e0f"
MIN_GUESSES = 2**128


def tokens(*keys: str, purpose: str = "callbacks") -> CallbackTokens:
    return CallbackTokens(Digester(keys, purpose))


def test_a_token_names_its_call_and_cannot_be_guessed() -> None:
    token = tokens(NEW).mint(CALL, RUN)
    assert tokens(NEW).open(token) == (CALL, RUN)
    mac = token.removeprefix(f"{CALL}.{RUN}.")
    assert set(mac) <= set(string.hexdigits.lower())
    assert 16 ** len(mac) >= MIN_GUESSES


def test_the_first_key_makes_and_all_open() -> None:
    before, both, after = tokens(OLD), tokens(NEW, OLD), tokens(NEW)
    assert both.open(before.mint(CALL, RUN)) == (CALL, RUN)
    assert after.open(both.mint(CALL, RUN)) == (CALL, RUN)
    assert before.open(both.mint(CALL, RUN)) is None
    assert after.open(before.mint(CALL, RUN)) is None


def test_without_keys_each_process_has_its_own() -> None:
    assert tokens().open(tokens().mint(CALL, RUN)) is None


def test_a_digest_for_another_purpose_is_no_token() -> None:
    assert tokens(NEW).open(tokens(NEW, purpose="calls").mint(CALL, RUN)) is None


def test_a_token_with_any_other_character_anywhere_is_not_ours() -> None:
    token = tokens(NEW).mint(CALL, RUN)
    for at, was in enumerate(token):
        for other in sorted(set(string.printable) - {was})[at % 9 :: 9]:
            assert tokens(NEW).open(token[:at] + other + token[at + 1 :]) is None


@pytest.mark.parametrize(
    "token", ["", ".", "..", CALL, f"{CALL}.", f"{CALL}..", f"{CALL}.\u00e9", "\ufffd.a", f"{CALL}\u0660.a"]
)
def test_what_has_not_even_the_shape_of_a_token_is_not_ours(token: str) -> None:
    assert tokens(NEW).open(token) is None


class Arrived:
    """A body that is there."""

    def __init__(self, body: bytes = b'{"type":"tool_result","group_id":"g","id":"i","text":"x"}') -> None:
        self.body = body

    def now(self, holder: str = "") -> bytes:
        return self.body

    async def read(self) -> bytes:
        return self.body


class Reader:
    """Notes how it is to read what was posted."""

    def __init__(self) -> None:
        self.read: list[tuple[str, list[str]]] = []

    async def receive(
        self, *_what: Any, run: str, ended: bool, decode: str, failure_patterns: Sequence[re.Pattern[str]]
    ) -> None:
        assert (run, ended) == (RUN, False)
        self.read.append((decode, [pattern.pattern for pattern in failure_patterns]))

    def may_be_message(self, body: bytes) -> bool:
        return is_message(body)


def callbacks_at(state: State, backlog: Backlog, **receivers: Reader) -> Callbacks:
    return Callbacks(
        state,
        tokens(NEW),
        receivers=receivers,
        published=lambda _tool: None,
        absent=lambda _: Reader(),
        backlog=backlog,
        linked=lambda trace, _: trace,
    )


@pytest.mark.anyio
async def test_a_result_is_read_as_the_route_said_when_its_call_began_whatever_became_of_the_tool() -> None:
    state, reader = MemoryState(StateLimits(), time.monotonic), Reader()
    later = DeferredCall(run=RUN, decode="never", failure_patterns=("FAILED",))
    note = CallMetadata(dialect="oxp", wire_version="1.0", call_id="k", tool="Gone.Tool@1.0.0", deferred=later)
    await state.begin(NewCall(key=CALL, fingerprint="f", principal="p", backend="later", note=pack_metadata(note)))
    callbacks = callbacks_at(state, Backlog(lambda key: True), later=reader)
    request = Request(Head(method="POST", path="/callbacks/", headers={}), REST)
    assert await callbacks.answer(request, tokens(NEW).mint(CALL, RUN), None, Arrived()) is None
    assert reader.read == [("never", ["FAILED"])]
    assert (
        await callbacks.answer(request, tokens(NEW).mint(CALL, "another run"), None, Arrived()) is ErrorCode.NOT_FOUND
    )
    assert len(reader.read) == 1


@pytest.mark.anyio
async def test_what_waits_for_the_state_has_one_bound_with_the_results_that_do() -> None:
    async def be_away() -> None:
        raise StateUnavailable

    async with desk() as it:
        callbacks = callbacks_at(it.state, it.endings.backlog)
        assert it.endings.backlog.hold(CallKey("k"), MAX_BYTES - len(Arrived().now()), be_away)
        it.state.away, it.state.forgets_what_it_holds = {"get"}, True
        request = Request(Head(method="POST", path="/callbacks/", headers={}), REST)
        token = tokens(NEW).mint(CALL, RUN)
        assert [await callbacks.answer(request, token, None, Arrived()) for _ in range(2)] == [
            None,
            ErrorCode.BACKEND_UNAVAILABLE,
        ]


@pytest.mark.anyio
@pytest.mark.parametrize("body", [b"", b'{"type":"tool_result"', b'{"type":"tool_result","text":"x"}', b'{"type":[]}'])
async def test_what_can_never_count_is_not_acknowledged_while_the_state_is_away(body: bytes) -> None:
    async with desk() as it:
        callbacks = callbacks_at(it.state, it.endings.backlog)
        it.state.away, it.state.forgets_what_it_holds = {"get"}, True
        request = Request(Head(method="POST", path="/callbacks/", headers={}), REST)
        assert (
            await callbacks.answer(request, tokens(NEW).mint(CALL, RUN), None, Arrived(body))
            is ErrorCode.INVALID_REQUEST
        )
        assert len(it.endings.backlog) == 0
