"""What must hold of a simulation that has come to its end, and what excuses that it does not.

Redis promises: what it has acknowledged stays, unless the server dies before that has reached its copy, or its disk.
The gateways add: what a server loses comes back from the gateways that have written it. So a call may be lost, or run
once more, only if a server lost what was written of it, and a gateway that had written it was dead, frozen or cut off
at some time from then until the others have gone on. A call may end as unknown only if that happened to a gateway
that has begun it, or if it was begun at a primary that had been replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gateway.calls.names import CallNames
from gateway.calls.status import BROKEN, GONE, UNREMEMBERED
from gateway.core.sealing import Digester
from gateway.state.port import RECORD_BYTES
from tests.simulation.commands import Hash, Members, Scores
from tests.simulation.gateway import KEYS
from tests.simulation.servers import calls_in
from tests.simulation.toolserver import BROKEN_OFF as BROKEN_OFF_RESULT
from tests.simulation.world import LONGEST_S, TIMING, Caller, World, was_absent

RESTORED_WITHIN_S = 10 * TIMING.settle_in_s  # as long as a server without its data waits for the gateways
UNKNOWN = {each.failure.message for each in (BROKEN, GONE, UNREMEMBERED) if each.failure is not None}
BROKEN_OFF = BROKEN_OFF_RESULT.failure.message if BROKEN_OFF_RESULT.failure is not None else ""
NOTICED_WITHIN_S = 2.5  # an outcome that is taken at one gateway, while the answer of another is on its way
OVER: tuple[bytes | None, ...] = (b"5", b"6")


def violations(world: World) -> list[str]:
    """Everything that does not hold."""
    found = [f"{caller.plan.name}: {each}" for caller in world.callers for each in caller.complaints]
    found += [f"a bug: {error.get('message')} {error.get('exception')!r}" for error in world.loop.errors]
    names = CallNames(Digester(KEYS, "calls"), partitions=world.gateways[0].state.partitions)
    for plan in world.plans.values():
        callers = [caller for caller in world.callers if caller.plan is plan]
        found += [f"{plan.name}: {each}" for each in _of_call(world, callers, names)]
    text = "\n".join(of_data(world))
    for key, name in world.call_names.items():
        text = text.replace(key, name)
    return found + text.splitlines()


def _of_call(world: World, callers: list[Caller], names: CallNames) -> list[str]:
    plan = callers[0].plan
    (key,) = names.keys_of_id(callers[0].principal, callers[0].call_id)
    is_lost, found = is_excused(world, key), []
    if not plan.is_idempotent and len(plan.runs) > 1 and not is_lost:
        found.append(f"it ran {len(plan.runs)} times")
    if plan.refused and not (is_lost or plan.is_idempotent):
        found.append(f"an outcome was not taken: {plan.refused}")
    unanswered = [caller for caller in callers if not caller.answers and not caller.complaints]
    if not (is_lost or plan.refused):
        found += [f"a caller got no answer in {LONGEST_S} s"] * len(unanswered)
    answers = [each for caller in callers for each in caller.answers]
    found += [each for answer in answers for each in _of_answer(world, callers[0], *answer, key, is_lost=is_lost)]
    values = Counter(str(answer) for _, answer in answers if not isinstance(answer, str))
    if len(values) > 1 and not (is_lost or plan.is_idempotent):
        found.append(f"callers got different outcomes: {dict(values)}")
    return found


def _of_answer(world: World, caller: Caller, when_s: float, answer: object, key: str, *, is_lost: bool) -> list[str]:
    plan = caller.plan
    if not isinstance(answer, str):
        expected = [{"call": plan.name, "run": run} for run in plan.runs]
        return [] if answer in expected else [f"a caller got the outcome of another call: {answer}"]
    if caller.backend == "now" and answer == BROKEN_OFF:
        return []
    if is_lost:
        return []
    if any(told_s < when_s - NOTICED_WITHIN_S for told_s, _ in plan.told):
        return [f"its outcome was taken, and then a caller was told: {answer}"]
    if answer in UNKNOWN and (key in world.outdated or any(each.absences for each in world.began.get(key, ()))):
        return []
    return [f"a caller was told: {answer}"]


def is_excused(world: World, key: str) -> bool:
    """Whether Redis has lost what was written of a call, and who had written it could not put it back.

    Or a gateway died with the outcome, which it held back while there was no Redis. Or a primary that was replaced, and
    did not know it yet, has answered a gateway that did not know it either.
    """
    if key in world.held_by_dead or any(each.absences for each in world.outdated.get(key, ())):
        return True
    return any(
        was_absent(machine, loss.since_s[key], loss.at_s + RESTORED_WITHIN_S)
        for loss in world.losses
        for machine in loss.writers.get(key, ())
    )


def of_data(world: World) -> list[str]:
    """What is left in the data: no quota of calls that are over, no more bytes than there are, nobody's calls."""
    found: list[str] = []
    copies = [primary.data.copy() for primary in world.primaries]
    data = {name.decode(): value for copy in copies for name, (value, _) in copy.items()}
    calls = {key: value for name, value in data.items() if name.endswith("}:call") for key in calls_in(name.encode())}
    for key, fields in calls.items():
        assert isinstance(fields, Hash)
        if fields.get(b"state") not in OVER and not is_excused(world, key):
            found.append(f"call {key} of {fields.get(b'backend')!r} is still in state {fields.get(b'state')!r}")
    for name, value in data.items():
        kind = name.split(":")[-2] if ":" in name else ""
        if kind == "pending" and isinstance(value, Scores):
            found += [f"{name} still counts {key.decode()}" for key in value if _state(calls, key) in (*OVER, None)]
        elif kind == "records" and isinstance(value, Scores):
            found += [f"{name} still counts {key.decode()}" for key in value if _state(calls, key) not in OVER]
        elif kind == "held" and isinstance(value, Members):
            found += [f"{name} still has {key.decode()}" for key in value if _state(calls, key) in (*OVER, None)]
        elif kind == "sizes" and isinstance(value, Hash):
            total = int(value.get(b"", b"0"))
            if total != sum(int(size) for key, size in value.items() if key):
                found.append(f"{name} has a wrong sum")
            counted = {key.decode(): int(size) for key, size in value.items() if key}
            found += [
                f"{name} counts {size} bytes of {key}" for key, size in counted.items() if size != _size(calls, key)
            ]
    return found


def _size(calls: Mapping[str, object], key: str) -> int:
    fields = calls.get(key)
    assert fields is None or isinstance(fields, Hash)
    return 0 if fields is None else RECORD_BYTES + len(fields[b"note"]) + len(fields.get(b"outcome", b""))


def _state(calls: Mapping[str, object], key: bytes) -> bytes | None:
    fields = calls.get(key.decode())
    return fields.get(b"state") if isinstance(fields, Hash) else None
