"""The life of a call, whatever keeps it: begun once, moved forward, settled once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from gateway.state.port import (
    AWAITING_USER,
    MAX_NOTE_BYTES,
    CallState,
    Conflict,
    Created,
    OutcomeTooLarge,
    State,
    StateLimits,
)
from tests.contract.state.conftest import OpenReplica, OpenState
from tests.support.stored_calls import ACCEPTED, DISPATCHING, DONE, REGISTERED, began, call, found, joined, state_of

pytestmark = pytest.mark.anyio


async def test_a_new_call_is_mine_to_dispatch(state: State) -> None:
    new = call(note=b"\x00any\xff", question="q" * 64, idempotent=True, backend="crm ø")
    begun = await state.begin(new)
    assert isinstance(begun, Created)
    record = await state.get(new.key)
    assert record == begun.record
    assert (record.state, record.replica, record.outcome) == (REGISTERED, state.replica, None)
    assert (record.fingerprint, record.principal, record.backend) == ("f", "p", "crm ø")
    assert (record.note, record.question, record.idempotent) == (b"\x00any\xff", "q" * 64, True)


async def test_the_same_call_again_is_joined(state: State) -> None:
    new = call(note=b"first")
    await state.begin(new)
    assert (await joined(state, structs.replace(new, note=b"second"))).note == b"first"


async def test_a_finished_call_is_replayed(state: State) -> None:
    new = call()
    await began(state, new, DISPATCHING)
    assert await state.settle(new.key, b"the outcome")
    again = await joined(state, new)
    assert (again.state, again.outcome) == (DONE, b"the outcome")


async def test_other_content_under_the_same_key_conflicts(state: State) -> None:
    new = call()
    await began(state, new)
    assert await state.begin(call(key=new.key, fingerprint="other")) == Conflict()
    await state.settle(new.key, b"")
    assert await state.begin(call(key=new.key, fingerprint="other")) == Conflict()


async def test_a_call_begun_under_an_older_key_is_the_same_call(state: State) -> None:
    old = call(fingerprint="old")
    await began(state, old)
    renamed = await joined(state, call(fingerprint="new", older=((old.key, "old"),)))
    assert renamed.key == old.key
    assert await state.begin(call(fingerprint="new", older=((old.key, "different"),))) == Conflict()


async def test_a_call_moves_forward_only(state: State) -> None:
    key = (await began(state, call(note=b"first"))).key
    assert await state.advance(key, [REGISTERED], DISPATCHING)
    assert not await state.advance(key, [REGISTERED], DISPATCHING)
    assert await state.advance(key, [REGISTERED, DISPATCHING], ACCEPTED)
    assert not await state.advance(key, [REGISTERED], AWAITING_USER)
    assert (await found(state, key)).note == b"first"
    assert await state.advance(key, [DISPATCHING, ACCEPTED], AWAITING_USER, note=b"challenge")
    record = await found(state, key)
    assert (record.state, record.note) == (AWAITING_USER, b"challenge")
    await state.settle(key, b"")
    assert not await state.advance(key, [REGISTERED, DISPATCHING, ACCEPTED], AWAITING_USER)


async def test_a_queued_call_is_registered_again(state: State) -> None:
    key = (await began(state, to=DISPATCHING)).key
    assert await state.advance(key, [DISPATCHING], REGISTERED)
    assert await state_of(state, key) is REGISTERED
    for _ in range(2):  # also one of which that was not heard
        assert await state.advance(key, [REGISTERED, DISPATCHING], DISPATCHING)
    assert await state.advance(key, [DISPATCHING], ACCEPTED)
    assert not await state.advance(key, [DISPATCHING], REGISTERED)
    assert await state_of(state, key) is ACCEPTED


@pytest.mark.parametrize(
    ("from_states", "to"),
    [
        ([REGISTERED], DONE),
        ([REGISTERED], CallState.UNKNOWN),
        ([ACCEPTED], REGISTERED),
        ([ACCEPTED], DISPATCHING),
        ([ACCEPTED], ACCEPTED),
        ([], DISPATCHING),
    ],
)
async def test_an_invalid_move_is_a_value_error(state: State, from_states: list[CallState], to: CallState) -> None:
    key = (await began(state)).key
    with pytest.raises(ValueError, match="moves forward"):
        await state.advance(key, from_states, to)


@pytest.mark.parametrize("before", [REGISTERED, DISPATCHING, ACCEPTED, AWAITING_USER])
async def test_a_call_is_settled_from_wherever_it_is(state: State, before: CallState) -> None:
    key = (await began(state, to=before)).key
    assert await state.settle(key, b"outcome")
    record = await found(state, key)
    assert (record.state, record.outcome) == (DONE, b"outcome")


async def test_an_outcome_may_be_empty_or_as_large_as_allowed(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_result_bytes=100_000))
    empty, large = (await began(state)).key, (await began(state)).key
    assert await state.settle(empty, b"")
    assert await state.settle(large, bytes(100_000))
    records = [await state.get(empty), await state.get(large)]
    assert [record and record.outcome for record in records] == [b"", bytes(100_000)]


async def test_an_outcome_too_large_leaves_the_call_as_it_was(open_state: OpenState) -> None:
    state = await open_state(StateLimits(max_result_bytes=100))
    key = (await began(state)).key
    with pytest.raises(OutcomeTooLarge):
        await state.settle(key, bytes(101))
    assert await state.settle(key, bytes(100))


async def test_an_unknown_call_is_nowhere(state: State) -> None:
    assert await state.get("unknown") is None
    assert await state.wait("unknown", 1.0) is None
    assert not await state.settle("unknown", b"")
    assert not await state.advance("unknown", [REGISTERED], DISPATCHING)
    await state.forget("unknown")
    await state.mark_delivered("unknown")


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ""},
        {"key": "k" * 65},
        {"key": "a}b"},
        {"key": "a\n"},
        {"fingerprint": "ü"},
        {"principal": "a:b"},
        {"question": ""},
        {"older": (("a b", "f"),)},
        {"backend": ""},
        {"backend": "b" * 201},
        {"note": bytes(MAX_NOTE_BYTES + 1)},
    ],
)
async def test_a_call_out_of_bounds_never_reaches_redis(open_replica: OpenReplica, wrong: dict[str, Any]) -> None:
    """There its names are parts of other names; in memory they are only names."""
    state = await open_replica()
    with pytest.raises(ValueError, match=r"has (1 to|at most)"):
        await state.begin(call(**wrong))


async def test_keys_out_of_bounds_are_refused_everywhere(state: State) -> None:
    for asked in (
        state.get("a*"),
        state.mark_delivered("a*"),
        state.wait("a*", 1.0),
        state.settle("a*", b""),
        state.forget("a*"),
        state.advance("a*", [REGISTERED], DISPATCHING),
    ):
        with pytest.raises(ValueError, match="a digest has"):
            await asked


async def test_a_note_out_of_bounds_is_refused(state: State) -> None:
    key = (await began(state)).key
    with pytest.raises(ValueError, match="a note has"):
        await state.advance(key, [REGISTERED], DISPATCHING, note=bytes(MAX_NOTE_BYTES + 1))
