"""The child process for long work: what it does, what ends it, and whose turn it is."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from gateway.core import jsontext
from gateway.offload import ChildTasks, OffloadError, OverrunError
from gateway.offload.parent import MAX_WAITING_PER_OWNER
from gateway.offload.tasks import read_document
from gateway.protocols.openapi.reading import read_value
from gateway.schemas import CompiledSchema

pytestmark = pytest.mark.anyio

MEMORY = 128 * 1024 * 1024
SLOW = {"type": "object", "properties": {"a": {"type": "string", "pattern": "a[ab]{5000}c"}}}
NEVER_DONE = {"a": "ab" * 500_000}  # two minutes
QUESTION = (read_document, b'{"input": [1, {}], "n": 2}', b"64", b"input")
ANSWER = (b"", b'{"input":null,"n":2}', b'["input"]', b"[1,{}]")


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@pytest.fixture
async def offload() -> AsyncIterator[ChildTasks]:
    offload = ChildTasks(memory_bytes=MEMORY)
    yield offload
    await offload.aclose()


async def ask(offload: ChildTasks, owner: str = "me", within_s: float = 30.0) -> tuple[bytes, ...]:
    return await offload.run(*QUESTION, cpu_s=5.0, within_s=within_s, owner=owner)


async def test_a_task_out_of_time_is_ended_and_the_next_gets_another_child(offload: ChildTasks) -> None:
    schema = CompiledSchema.compile(SLOW)
    with pytest.raises(OverrunError):
        await offload.errors(schema, NEVER_DONE, "me")
    assert await offload.errors(schema, {"a": "b"}, "me") == {"a": "does not match the pattern a[ab]{5000}c"}


async def test_a_task_out_of_memory_raises_overrun(offload: ChildTasks) -> None:
    with pytest.raises(OverrunError):  # five million lists of 56 bytes
        await offload.run(read_document, b"[%b[]]" % (b"[]," * 5_000_000), b"64", cpu_s=60.0, within_s=60.0, owner="")
    assert await ask(offload) == ANSWER


SIGNALS = [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP]
LONG = b"[%b1]" % (b"1," * 3_000_000)  # a second or so


def process_of(offload: ChildTasks) -> int:
    assert offload.pid is not None
    return offload.pid


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_child_that_was_ended_or_stopped_from_outside_costs_no_task_its_answer(
    offload: ChildTasks, number: signal.Signals
) -> None:
    await ask(offload)
    first = process_of(offload)
    os.kill(first, number)
    assert await ask(offload) == ANSWER
    assert process_of(offload) != first


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_task_whose_child_is_ended_or_stopped_meanwhile_is_done_again(
    offload: ChildTasks, number: signal.Signals
) -> None:
    await ask(offload)
    first = process_of(offload)
    reading = asyncio.ensure_future(offload.read_answer(LONG, (), 64, "me"))
    behind = asyncio.ensure_future(ask(offload, "other"))
    await asyncio.sleep(0.05)  # into the task, or into its frame
    os.kill(first, number)
    with suppress(jsontext.JsonError):  # it has too many values for a result that is decoded here
        await reading
    assert await behind == ANSWER
    assert process_of(offload) != first


async def test_a_task_that_goes_on_losing_its_child_is_given_up(offload: ChildTasks) -> None:
    async def end_each() -> None:
        while True:
            if offload.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(offload.pid, signal.SIGTERM)
            await asyncio.sleep(0)

    ending = asyncio.create_task(end_each())
    with pytest.raises(OffloadError):
        await ask(offload)
    ending.cancel()
    assert await ask(offload) == ANSWER


async def test_owners_take_turns(offload: ChildTasks) -> None:
    order: list[str] = []

    async def asked(owner: str) -> None:
        await ask(offload, owner)
        order.append(owner)

    async with asyncio.TaskGroup() as group:
        for owner in ("busy", "busy", "busy", "busy", "other"):
            group.create_task(asked(owner))
    assert order.index("other") <= 1


async def test_one_owner_cannot_fill_the_queue(offload: ChildTasks) -> None:
    asking = [asyncio.ensure_future(ask(offload, "busy")) for _ in range(MAX_WAITING_PER_OWNER * 2)]
    assert await ask(offload, "other") == ANSWER
    ended = await asyncio.gather(*asking, return_exceptions=True)
    assert sum(isinstance(each, OffloadError) for each in ended) == MAX_WAITING_PER_OWNER


async def test_owed_tasks_are_never_refused(offload: ChildTasks) -> None:
    async def run() -> tuple[bytes, ...]:
        return await offload.run(*QUESTION, cpu_s=5.0, within_s=60.0, owner="busy", must_run=True)

    answers = await asyncio.gather(*(run() for _ in range(MAX_WAITING_PER_OWNER * 2)))
    assert set(answers) == {ANSWER}


async def test_a_caller_waits_no_longer_than_it_asked(offload: ChildTasks) -> None:
    with pytest.raises(OffloadError):
        await ask(offload, within_s=0.0)
    assert await ask(offload) == ANSWER


async def test_closing_ends_the_child_and_refuses_what_waits() -> None:
    offload = ChildTasks(memory_bytes=MEMORY)
    waiting = [asyncio.ensure_future(ask(offload)) for _ in range(3)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert offload._child is not None
    process = offload._child.process
    await offload.aclose()
    assert process.poll() is not None
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(each == ANSWER or isinstance(each, OffloadError) for each in ended)
    with pytest.raises(OffloadError):
        await ask(offload)


async def test_the_child_gets_no_secrets_from_the_environment(
    offload: ChildTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JWT_SECRET", "canary")
    await ask(offload)
    assert offload._child is not None
    assert b"canary" not in environment_of(offload._child.process.pid)


READABLE = {
    "flat": (b'{"tool_id":"A.B","input":{"a":1,"a":2}}', b'{"tool_id":"A.B","input":{"a":2}}'),
    "enveloped": (b'{"request":{"input":{"a":[]}}}', b'{"request":{"input":{"a":[]}}}'),
    "without": (b'{"request":{}}', b'{"request":{}}'),
    "plain": (b'{"input":7}', b'{"input":7}'),
    "list": (b'[{"input":{}}]', b'[{"input":{}}]'),
    "a long text": (b'{"input":"%b"}' % (b"x" * 5_000_000), b'{"input":"%b"}' % (b"x" * 5_000_000)),
}


@pytest.mark.parametrize(("text", "read"), READABLE.values(), ids=READABLE)
async def test_a_document_is_encoded_from_what_was_read(offload: ChildTasks, text: bytes, read: bytes) -> None:
    document = await offload.read(text, (b"input",), 64, "me")
    assert jsontext.encode(document) == read


@pytest.mark.parametrize("text", [b'{"a":1', b'{"a":"\\ud800"}', b'{"a":"\xff"}', b"[" * 65 + b"]" * 65, b"1" * 5000])
async def test_what_is_refused_here_is_refused_there_in_the_same_words(offload: ChildTasks, text: bytes) -> None:
    with pytest.raises(jsontext.JsonError) as here:
        jsontext.decode(text)
    with pytest.raises(jsontext.JsonError) as there:
        await offload.read(text, (b"input",), 64, "me")
    assert str(there.value) == str(here.value)


async def test_too_many_values_beside_the_arguments_are_refused(offload: ChildTasks) -> None:
    text = b'{"context":[%b{}],"input":{}}' % (b"{}," * 100_000)
    with pytest.raises(jsontext.JsonError, match="too many values"):
        await offload.read(text, (b"input",), 64, "me")


async def test_values_are_held_against_output_schemas(offload: ChildTasks) -> None:
    schema = CompiledSchema.compile({"type": "array", "items": {"type": "integer"}})
    assert await offload.violation(schema, [1, 2], "me") is None
    assert await offload.violation(schema, [1, "x"], "me") == "at [1]: is not an integer"
    broken = CompiledSchema({"type": "nothing"})
    assert str(await offload.violation(broken, 1, "me")).startswith("The output schema cannot be used: ")


SELECTED = [
    (b'{"a":[1,{"b":2}]}', "", {"a": [1, {"b": 2}]}),
    (b'{"a":[1,{"b":2}]}', "/a/1/b", 2),
    (b'{"a":[{"b":2}]}', "a[].{c: b}", [{"c": 2}]),
    (b'{"a":1}', "/b", Raw(b"null")),  # which is no missing value
    (b'{"a":[%b1]}' % (b"1," * 50_000), "a[:2]", [1, 1]),
    (b"[%b1]" % (b"1," * 50_000), "", Raw(b"[%b1]" % (b"1," * 50_000))),
]


@pytest.mark.parametrize(("text", "select", "value"), SELECTED, ids=range(len(SELECTED)))
async def test_a_value_is_read_and_selected_from_and_stays_text_where_there_is_much_of_it(
    offload: ChildTasks, text: bytes, select: str, value: Any
) -> None:
    assert await offload.value(read_value, text, select, 64, "me") == value


@pytest.mark.parametrize(("text", "select"), [(b'{"a":', ""), (b'{"a":"x"}', "abs(a)"), (b'{"a":1}', "a[")])
async def test_a_value_that_cannot_be_read_or_selected_from_is_none(
    offload: ChildTasks, text: bytes, select: str
) -> None:
    with pytest.raises(jsontext.JsonError):
        await offload.value(read_value, text, select, 64, "me")
