"""The tasks of the child, pure functions of bytes, and the frames that carry them and their answers.

A frame is a fixed head and a MessagePack body: of a request the task's name and its parts, of an answer the parts that
the task returned. Each part is JSON text unless the task says otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec

from gateway.dialects.callback_toolset import read_toolset
from gateway.dialects.listings import read_list
from gateway.dialects.rcrt_tools import read_catalog
from gateway.offload.reading import read_callback, read_document
from gateway.offload.validation import check_schemas, explain_input, explain_output

Parts = tuple[bytes, ...]
Task = Callable[..., Parts]

TASKS: dict[str, Task] = {
    task.__name__: task
    for task in (
        read_document,
        explain_input,
        explain_output,
        read_callback,
        read_list,
        read_toolset,
        read_catalog,
        check_schemas,
    )
}

HEAD = struct.Struct("!Id")  # length of the body in bytes; of a request the processor time it may take, in seconds
MAX_FRAME_BYTES = 512 * 1024 * 1024  # a list of 64 MiB with room for what is made of it

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(tuple[str, Parts]).decode
decode_answer = msgspec.msgpack.Decoder(Parts).decode
