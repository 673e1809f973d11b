"""Bugs that are planted, one at a time: each takes away something that the protocol needs.

`python -m tests.simulation.planted FROM TO` looks for the first seed that finds each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from gateway.state import owned_calls, partition
from tests.simulation.__main__ import simulate


def _script(before: bytes, after: bytes) -> Callable[[], AbstractContextManager[Any]]:
    """Changes the script."""
    changed = partition.SCRIPT.replace(before, after)
    assert changed != partition.SCRIPT, before
    return lambda: mock.patch.object(partition, "SCRIPT", changed)


def _owned(method: str, replacement: Callable[..., Any]) -> Callable[[], AbstractContextManager[Any]]:
    """Changes what a replica does with the calls that it owns."""
    return lambda: mock.patch.object(owned_calls.OwnedCalls, method, replacement)


async def _nothing(*_arguments: object) -> None: ...


BUGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "any replica may say that another is dead": _script(
        b"return lease(me) - now > lease_ms / 2 end", b"return true end"
    ),
    "a server that lacks the last writes is not noticed": _script(b"  if known then\n", b"  if false then\n"),
    "calls begin before all are put back": _script(
        b"  if restoring() then return RESTORING end\n  table.insert(older", b"  table.insert(older"
    ),
    "calls are not put back": _script(b"  if left <= 0 or redis.call('EXISTS'", b"  if true or redis.call('EXISTS'"),
    "outcomes are not reported again": _owned("report_outcomes", _nothing),
    "what another replica has ended is put back as running": _owned("_may_have_ended", lambda *_: False),
    "calls in doubt are never forgotten": _owned("forget_doubtful", _nothing),
    "calls that only Redis knows are not looked for": _owned("unaccounted", lambda *_: []),
    "a late begin takes the call that its replica runs": _script(
        b"return dead(replica) and", b"return (replica == me or dead(replica)) and"
    ),
    "calls that were sent are taken over by who repeats them": _script(
        b"(state == REGISTERED or (state == DISPATCHING and idempotent == '1'))", b"state <= DISPATCHING"
    ),
    "calls that were sent are given back": _script(b"if state == DISPATCHING and got[3] ~= '1' then", b"if false then"),
    "any replica may send a call": _script(
        b"local allowed = to > DISPATCHING or got[2] == me", b"local allowed = true"
    ),
    "a call ends twice": _script(b"  if state == DONE then return NO end\n", b""),
    "a call is put back that is there": _script(
        b"redis.call('EXISTS', call_key(key), seen_key(key)) > 0 then return NO", b"false then return NO"
    ),
    "what is forgotten still counts": _script(
        b"  release(principal, { key })\nend\n\n-- Keeps no more", b"end\n\n-- Keeps no more"
    ),
    "what has ended is still held": _script(
        b"  redis.call('SREM', held_key(got[3]), key)\n  wake(key, got[3], got[5])", b"  wake(key, got[3], got[5])"
    ),
    "another note counts as the old one": _script(
        b"  grow(principal, key, #note - redis.call('HSTRLEN', call_key(key), 'note'))\n", b""
    ),
}


def main() -> None:
    first, last = map(int, sys.argv[1:3])
    for name, bug in BUGS.items():
        if sys.argv[3:] and not any(word in name for word in sys.argv[3:]):
            continue
        with bug():
            found = next(((seed, what) for seed in range(first, last) if (what := simulate(seed)[0])), None)
        print(f"{name}: {'not found' if found is None else f'{found[0]} {found[1][0][:120]}'}", flush=True)


if __name__ == "__main__":
    main()
