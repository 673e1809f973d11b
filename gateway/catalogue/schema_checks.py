"""Checks the schemas of tools: plain ones here, those that may take long in another process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypeVar

from gateway.core.errors import unavailable
from gateway.core.jsontext import encode
from gateway.core.model import ToolDefinition
from gateway.offload import Offload, OffloadError, OverrunError
from gateway.offload.tasks import Schemas, Verdict, check, check_schemas, decode_verdict

T = TypeVar("T")

SLICE_S = 0.005  # of work between two turns of the event loop: no call waits noticeably longer
HERE_BYTES = 4 * 1024  # of a definition checked here: 5 ms at worst
GROWN_BYTES = 4 * 1024  # as long as it may be with its references replaced; n of them double it n/2 times at worst
HERE_PATTERNS = 4  # plain ones; others may take 50 ms each
BATCH_TOOLS, BATCH_BYTES = 16, 64 * 1024  # what the child checks at once
BATCH_CPU_S, TOOL_CPU_S = 4.0, 1.0  # of the child; 60 schemas that name one another take 10 ms
WITHIN_S = 60.0  # for one answer, with the wait for other backends
LISTING_S = 120.0  # for all of a list; what is not checked by then is left out
MAX_GROWN_BYTES = 16 * 1024 * 1024  # of all tools of a backend, by references that are replaced with what they name

# Of ASCII characters without groups, and one short repetition: three, one of the other, take 50 ms.
PLAIN_PATTERN = re.compile(rb'"pattern":"(?![^"]*(?:[0-9]{3}|\{[^"]*\{))[A-Za-z0-9_^$\[\]+*?.,@ {}-]{0,64}"')
TOO_SLOW = Verdict(Schemas({}, None), reason="It takes too long to check.")
NO_TIME = Verdict(Schemas({}, None), reason="Too many schemas of its tool server take long to check.")


def is_plain(text: bytes) -> bool:
    """Whether checking the schemas of a definition takes some milliseconds at most, by its text."""
    references = text.count(b"$ref") + text.count(b'Ref"')
    if len(text) > HERE_BYTES or len(text) << min(references // 2, 8) > GROWN_BYTES:
        return False
    patterns = text.count(b'"pattern')
    return patterns == 0 or (patterns <= HERE_PATTERNS and len(PLAIN_PATTERN.findall(text)) == patterns)


class TimeSlices:
    """Cuts long work into slices, between which the event loop runs."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._until = self._now() + SLICE_S

    async def over(self, work: Iterable[T]) -> AsyncIterator[T]:
        """The pieces of some work; lets the event loop run between two of them if the slice is used up."""
        for piece in work:
            if self._now() >= self._until:
                await asyncio.sleep(0)
                self._until = self._now() + SLICE_S
            yield piece


async def verdicts(
    tools: Iterable[tuple[ToolDefinition, bool]], offload: Offload | None, owner: str, slices: TimeSlices
) -> AsyncIterator[tuple[ToolDefinition, Verdict]]:
    """Checks the schemas of tools, of which is known whether they are plain. Raises BACKEND_UNAVAILABLE."""
    apart = []
    async for definition, plain in slices.over(tools):
        if definition.is_checked:
            yield definition, Verdict(_schemas(definition))
        elif offload is None or plain:
            yield definition, check(_schemas(definition))
        else:
            apart.append(definition)
    clock, room = asyncio.get_running_loop().time, MAX_GROWN_BYTES
    until = clock() + LISTING_S
    for batch in _batches(apart):
        in_time = clock() <= until
        assert offload is not None
        answers = await _ask(offload, owner, [text for _, text in batch]) if in_time else [None] * len(batch)
        async for (definition, text), answer in slices.over(zip(batch, answers, strict=True)):
            if answer is None:
                yield definition, TOO_SLOW if in_time else NO_TIME
                continue
            verdict, grown = decode_verdict(answer), len(answer) - len(text)
            if not verdict.reason and grown > room:  # listed as they were sent
                verdict = Verdict(_schemas(definition), shows_output=verdict.shows_output)
            else:
                room -= max(grown - 256, 0)  # a verdict is a little longer than its schemas
            yield definition, verdict


def _schemas(definition: ToolDefinition) -> Schemas:
    return Schemas(definition.input_schema, definition.output_schema)


def _batches(definitions: Iterable[ToolDefinition]) -> Iterator[list[tuple[ToolDefinition, bytes]]]:
    """What the child checks at once, with the text of its schemas."""
    batch: list[tuple[ToolDefinition, bytes]] = []
    size = 0
    for definition in definitions:
        text = encode(_schemas(definition))
        size += len(text)
        if batch and (len(batch) == BATCH_TOOLS or size > BATCH_BYTES):
            yield batch
            batch, size = [], len(text)
        batch.append((definition, text))
    if batch:
        yield batch


async def _ask(offload: Offload, owner: str, texts: Sequence[bytes]) -> Sequence[bytes | None]:
    """The verdicts of a batch; when it takes too long, each by itself, and None for what takes too long alone."""
    cpu_s = BATCH_CPU_S if len(texts) > 1 else TOOL_CPU_S
    try:
        return await offload.run(check_schemas, *texts, cpu_s=cpu_s, within_s=WITHIN_S, owner=owner)
    except OverrunError:
        if len(texts) == 1:
            return [None]
    except OffloadError as exc:
        raise unavailable("the process that checks schemas is busy, or broken") from exc
    return [answer for text in texts for answer in await _ask(offload, owner, [text])]
