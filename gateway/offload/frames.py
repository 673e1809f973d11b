"""The frames between parent and child, each a fixed head and a MessagePack body."""

from __future__ import annotations

import struct

import msgspec

HEAD = struct.Struct("!Id")  # length of the body in bytes; of a request the processor time it may take, in seconds

MAX_FRAME_BYTES = 512 * 1024 * 1024  # a list of 64 MiB with room for what is made of it


class Job(msgspec.Struct, array_like=True):
    """One task for the child, by its name in `tasks.TASKS`, and what it works on."""

    task: str
    parts: tuple[bytes, ...]


class Answer(msgspec.Struct, array_like=True):
    """What a task returned, or that it needed more memory than there is."""

    parts: tuple[bytes, ...] = ()
    out_of_memory: bool = False


encode = msgspec.msgpack.Encoder().encode
decode_job = msgspec.msgpack.Decoder(Job).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
