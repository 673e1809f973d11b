"""What has come for a caller of the bridge that has not read it yet, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import TypeVar

MAX_QUEUED = 1000  # notifications; those that come then are dropped,
MAX_QUEUED_BYTES = 1024 * 1024  # as are those that would have more than this together; one alone may be larger

Message = TypeVar("Message", bound=Sized)


class Unread(asyncio.Queue[Message]):
    """Messages of a known size. A response always has room, because its request has been carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.held_bytes = 0
        self._is_closed = False

    def put_if_room(self, notification: Message) -> None:
        """Adds a notification, or drops it."""
        fits = not self.held_bytes or self.held_bytes + len(notification) <= MAX_QUEUED_BYTES
        if fits and self.qsize() < MAX_QUEUED:
            self.put_nowait(notification)

    def close(self) -> None:
        """Drops what is there and what still comes: the caller has left."""
        self._is_closed = True
        while not self.empty():
            self.get_nowait()

    # Called by `asyncio.Queue`.

    def _put(self, item: Message) -> None:
        if not self._is_closed:
            self.held_bytes += len(item)
            super()._put(item)

    def _get(self) -> Message:
        item = super()._get()
        self.held_bytes -= len(item)
        return item
