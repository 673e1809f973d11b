"""The socket of one caller: when it is read, and whether it can be written."""

from __future__ import annotations

import asyncio

from gateway.net.body_memory import BodyMemory
from gateway.net.sliced_input import SlicedInput


class Channel(SlicedInput, asyncio.Protocol):
    """What an exchange uses of its connection.

    The socket is not read while too much has been read ahead (`read_paused`), while the connection `is_queued` for
    parsing, or while it `is_held` until there is memory.
    """

    transport: asyncio.Transport

    def __init__(self, memory: BodyMemory, tasks: set[asyncio.Task[None]]) -> None:
        super().__init__()
        self.memory = memory
        self.tasks = tasks  # of all connections
        self.is_tls = self.read_paused = self.write_paused = False
        self.unsent = 0  # bytes of an answer that are still to be given to the transport
        self.written = 0  # size of the large piece that is being written, all of which is held until it is sent
        self._writable = asyncio.Event()

    def on_response_complete(self) -> None:
        """Called at the end of each answer."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Waits until the caller has read what was written."""
        await self._writable.wait()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self.write_paused = False
        self._writable.set()

    def pause_reading(self) -> None:
        """Reads no further ahead."""
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Undoes `pause_reading`."""
        if self.read_paused:
            self.read_paused = False
            self._resume_socket()

    def resume(self) -> None:
        """Continues when there is memory for more of a body."""
        self.is_held = False
        self.read_on()

    def read_on(self) -> None:
        self.parse_slices()
        self._resume_socket()

    def _resume_socket(self) -> None:
        if not (self.is_queued or self.is_held or self.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()
