"""Several requests that came as one: each is answered as if it had come alone, and all are answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from gateway.core.jsontext import encode
from gateway.core.surfaces import OpenedBatch
from gateway.core.wire import Body, WireReply
from gateway.pipeline.request import Request


class _Whole(Struct, frozen=True):
    """The body of one of them."""

    body: bytes

    def now(self, holder: str = "") -> bytes | None:
        return self.body

    async def read(self) -> bytes:
        return self.body


async def answer_batch(
    batch: OpenedBatch, request: Request, answer: Callable[[Request, Body], Awaitable[WireReply]]
) -> WireReply:
    """Has the pipeline `answer` each request of a batch, at the same time. They go on if their caller leaves.

    Each counts, and is noted, as a request of its own besides the one that brought them.
    """
    if request.server_request is not None:
        request.server_request.keep()
    parts = [Request(request.head, request.surface, request.ip, request.trace, is_part=True) for _ in batch.documents]
    bodies = [_Whole(encode(document)) for document in batch.documents]
    replies = await asyncio.gather(*map(answer, parts, bodies))
    request.parts = tuple(zip(parts, (reply.status for reply in replies), strict=True))
    return batch.encoder.encode_batch(replies)
