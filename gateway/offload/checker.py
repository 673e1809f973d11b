"""What calls need of the child: it reads documents of very many values, and checks values against schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from re import Pattern
from typing import Any

import msgspec
from msgspec import Raw

from gateway import jsontext
from gateway.dialects.callback import Callback
from gateway.model import Arguments, Decode, Json
from gateway.offload.client import Offload
from gateway.offload.reading import pack_how, read_callback, read_document, unpack_message
from gateway.offload.tasks import Parts, Task
from gateway.offload.validation import explain_input, explain_output
from gateway.schemas import CompiledSchema

MEMORY_BYTES = 768 * 1024 * 1024  # 8 MiB of nothing but brackets are 3 million values of up to 100 bytes
CHECK_S = 1.0  # of processor time; ordinary schemas take a millisecond for a megabyte
READ_S, READ_S_PER_MB = 0.5, 0.5
WITHIN_S = 15.0  # with the wait for other callers' slices
OWED_S = 60.0  # for the result of a tool that has run: it is lost if it cannot be read


class Checker(Offload):
    """The child that serves calls. All methods raise what `run` raises. `owner` is the principal who waits."""

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES) -> None:
        super().__init__(memory_bytes=memory_bytes)

    async def read(
        self, text: bytes, members: Iterable[bytes], max_depth: int, owner: str, *, is_owed: bool = False
    ) -> Json:
        """Reads a JSON document; objects and arrays under `members` stay text (`msgspec.Raw`). Raises JsonError."""
        depth = str(max_depth).encode()
        why, *read = await self._run(
            read_document, text, depth, *members, cpu_s=_reading_s(text), owner=owner, is_owed=is_owed
        )
        if why:
            raise jsontext.JsonError(why.decode())
        rest, *taken = read
        if jsontext.is_wide(rest):
            raise jsontext.JsonError("it holds too many values beside those that are passed on")
        document = jsontext.decode(rest, max_depth)
        for path, value in zip(taken[::2], taken[1::2], strict=True):
            *outer, last = msgspec.json.decode(path)
            holder: Any = document
            for name in outer:
                holder = holder[name]
            holder[last] = Raw(value)
        return document

    async def callback(
        self, body: bytes, own_id: str, own_group: str, decode: Decode, patterns: Sequence[Pattern[str]], owner: str
    ) -> Callback:
        """As `dialects.callback.decode_callback`."""
        ids, how = (own_id.encode(), own_group.encode()), pack_how(decode, patterns)
        run = self._run(read_callback, body, *ids, how, cpu_s=_reading_s(body), owner=owner, is_owed=True)
        return unpack_message(*await run)

    async def errors(self, schema: CompiledSchema, arguments: Arguments, owner: str) -> dict[str, str]:
        """What is wrong with arguments, by parameter; empty if they are valid."""
        text = jsontext.encode(arguments)
        (found,) = await self._run(explain_input, schema.text, text, cpu_s=CHECK_S, owner=owner)
        errors: dict[str, str] = msgspec.json.decode(found)
        return errors

    async def violation(self, schema: CompiledSchema, value: Json, owner: str) -> str | None:
        """The first thing that is wrong with a tool's value; None when it is valid."""
        text = jsontext.encode(value)
        (found,) = await self._run(explain_output, schema.text, text, cpu_s=CHECK_S, owner=owner, is_owed=True)
        return found.decode() or None

    async def _run(self, task: Task, *parts: bytes, cpu_s: float, owner: str, is_owed: bool = False) -> Parts:
        within_s = OWED_S if is_owed else WITHIN_S
        return await self.run(task, *parts, cpu_s=cpu_s, within_s=within_s, owner=owner, is_owed=is_owed)


def _reading_s(text: bytes) -> float:
    """The processor time that reading a document may take."""
    return READ_S + READ_S_PER_MB * len(text) / 1e6
