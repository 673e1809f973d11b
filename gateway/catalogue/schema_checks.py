"""Checks the schemas of tools: plain ones here, those that may take long in another process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from gateway.errors import unavailable
from gateway.jsontext import encode
from gateway.model import ToolDefinition
from gateway.offload import Offload, OffloadError, OverrunError
from gateway.offload.validation import Schemas, Verdict, check, check_schemas, decode_verdict

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


def _is_plain(text: bytes) -> bool:
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

    async def pause(self) -> None:
        """Lets the event loop run if the slice is used up; to be called between two pieces of work."""
        if self._now() >= self._until:
            await asyncio.sleep(0)
            self._until = self._now() + SLICE_S


class SchemaChecks:
    """Checks the schemas that are added, once. `complete`: there was time for all of them."""

    def __init__(self, offload: Offload | None, owner: str, slices: TimeSlices) -> None:
        self._offload = offload
        self._owner = owner
        self._slices = slices
        self._here: list[ToolDefinition] = []
        self._apart: list[tuple[ToolDefinition, bytes]] = []
        self._room = MAX_GROWN_BYTES
        self.complete = True

    def add(self, definition: ToolDefinition, text: bytes) -> None:
        """Adds a tool and its text."""
        if self._offload is None or _is_plain(text):
            self._here.append(definition)
        else:
            self._apart.append((definition, encode(Schemas(definition.input_schema, definition.output_schema))))

    async def verdicts(self) -> AsyncIterator[tuple[ToolDefinition, Verdict]]:
        """The verdict on each. Raises BACKEND_UNAVAILABLE."""
        for definition in self._here:
            await self._slices.pause()
            yield definition, check(Schemas(definition.input_schema, definition.output_schema))
        until = asyncio.get_running_loop().time() + LISTING_S
        while self._apart:
            batch = self._next_batch()
            if asyncio.get_running_loop().time() > until:
                self.complete = False
                answers: list[Verdict | bytes] = [NO_TIME] * len(batch)
            else:
                answers = await self._ask([text for _, text in batch])
            for (definition, text), answer in zip(batch, answers, strict=True):
                await self._slices.pause()
                yield definition, self._decoded(answer, definition, len(text))

    def _next_batch(self) -> list[tuple[ToolDefinition, bytes]]:
        size = 0
        for count, (_, text) in enumerate(self._apart[:BATCH_TOOLS]):
            size += len(text)
            if count and size > BATCH_BYTES:
                break
        else:
            count = BATCH_TOOLS
        batch, self._apart = self._apart[:count], self._apart[count:]
        return batch

    async def _ask(self, texts: list[bytes]) -> list[Verdict | bytes]:
        """The verdicts of a batch; when it takes too long, each by itself."""
        assert self._offload is not None
        cpu_s = BATCH_CPU_S if len(texts) > 1 else TOOL_CPU_S
        try:
            return list(
                await self._offload.run(check_schemas, *texts, cpu_s=cpu_s, within_s=WITHIN_S, owner=self._owner)
            )
        except OverrunError:
            if len(texts) == 1:
                return [TOO_SLOW]
        except OffloadError as exc:
            raise unavailable("the process that checks schemas is busy, or broken") from exc
        return [answer for text in texts for answer in await self._ask([text])]

    def _decoded(self, answer: Verdict | bytes, definition: ToolDefinition, size: int) -> Verdict:
        if isinstance(answer, Verdict):
            return answer
        verdict = decode_verdict(answer)
        grown = len(answer) - size
        if not verdict.reason and grown > self._room:  # listed as they were sent
            schemas = Schemas(definition.input_schema, definition.output_schema)
            return Verdict(schemas, shows_output=verdict.shows_output)
        self._room -= max(grown - 256, 0)  # a verdict is a little longer than its schemas
        return verdict
