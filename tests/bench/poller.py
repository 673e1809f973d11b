"""Callers and tool server in one thread that never sleeps while it measures.

Waking a process is charged to the process that writes to it, up to 10 us a call on a virtual machine. Two processes
that poll on one core take turns of milliseconds instead. So callers and tool server share one loop that never sleeps.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

BACKLOG = 4096  # thousands of connections are opened at once when waiting calls are weighed
READ_BYTES = 262144  # of one message, or of many that have arrived
NAP_S = 0.02  # while a server starts and nothing is measured

Ready = Callable[[int], None]  # takes what epoll says has happened


class Poller:
    """An event loop: calls the watcher of each ready file descriptor, and delayed work at its time."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ready: dict[int, Ready] = {}
        self._due: list[tuple[int, int, Callable[[], None]]] = []  # a heap; the number tells apart what is due at once
        self._put_off = count()

    def close(self) -> None:
        self._epoll.close()

    def watch(self, fd: int, ready: Ready) -> None:
        """Calls `ready` when there is something to read."""
        self._ready[fd] = ready
        self._epoll.register(fd, select.EPOLLIN)

    def await_room(self, fd: int, *, wanted: bool) -> None:
        """Calls `ready` also when there is room to write; or no longer."""
        self._epoll.modify(fd, select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN)

    def forget(self, fd: int) -> None:
        if self._ready.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def put_off(self, delay_ns: int, work: Callable[[], None]) -> None:
        """Does `work` later."""
        heappush(self._due, (time.perf_counter_ns() + delay_ns, next(self._put_off), work))

    def turn(self, patience_s: float = 0.0) -> bool:
        """Serves what has happened; False if nothing has within `patience_s`, which is 0 while anything is measured."""
        due = self._due
        while due and due[0][0] <= time.perf_counter_ns():
            heappop(due)[2]()
        events = self._epoll.poll(patience_s)
        for fd, what in events:
            ready = self._ready.get(fd)
            if ready is not None:  # it may have been closed a moment ago
                ready(what)
        if not events:
            os.sched_yield()  # Redis, on the same core, would have to wait for our turn to end
        return bool(events)

    def serve_for(self, seconds: float) -> None:
        """Serves for a while in which nothing is measured."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn(min(seconds, NAP_S))


class Peer:
    """One connection that carries HTTP messages, each with a length; `take` gets them whole, one at a time."""

    __slots__ = ("_missing", "_out", "_parts", "_poller", "_socket", "_take", "is_open")

    def __init__(self, poller: Poller, connection: socket.socket, take: Callable[[Peer, bytes], None]) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._poller = poller
        self._socket = connection
        self._take = take
        self._parts: list[bytes] = []  # of a message that has not come whole
        self._missing = 0  # bytes of it, as far as known: a list of 50 MB is put together once
        self._out = b""
        self.is_open = True
        poller.watch(connection.fileno(), self._ready)

    def send(self, data: bytes) -> None:
        """Sends everything, now or as soon as there is room."""
        if not self.is_open:
            return None
        if self._out:
            self._out += data
            return None
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except ConnectionError:
            return self._hung_up()
        if sent < len(data):
            self._out = data[sent:]
            self._poller.await_room(self._socket.fileno(), wanted=True)
        return None

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._poller.forget(self._socket.fileno())
            self._socket.close()

    def _hung_up(self) -> None:
        """The other side has closed the connection."""
        self.close()

    def _ready(self, what: int) -> None:
        if what & select.EPOLLOUT and self._out:
            out, self._out = self._out, b""
            self._poller.await_room(self._socket.fileno(), wanted=False)
            self.send(out)
        if what & ~select.EPOLLOUT and self.is_open:
            self._read()

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._hung_up()
            return
        self._parts.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        while (size := message_size(data)) is not None and size <= len(data):
            self._take(self, data[:size])
            data = data[size:]
        self._parts, self._missing = [data] if data else [], 0 if size is None else size - len(data)


class Listener:
    """Takes connections on a free port of loopback and hands their messages to `take`."""

    def __init__(self, poller: Poller, take: Callable[[Peer, bytes], None]) -> None:
        self._poller = poller
        self._take = take
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._socket.setblocking(False)
        self._peers: list[Peer] = []
        self.port: int = self._socket.getsockname()[1]
        poller.watch(self._socket.fileno(), self._ready)

    def close(self) -> None:
        """Stops listening and closes every connection."""
        self._poller.forget(self._socket.fileno())
        self._socket.close()
        for peer in self._peers:
            peer.close()

    def _ready(self, _: int) -> None:
        try:
            while True:
                connection, _address = self._socket.accept()
                self._peers.append(Peer(self._poller, connection, self._take))
        except BlockingIOError:
            return


def reply(body: bytes, headers: str = "") -> bytes:
    """A whole 200 of JSON; `headers` are further lines, each with its line end."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def post(target: str, port: int, body: bytes) -> bytes:
    """A whole POST of JSON to a server on loopback."""
    head = f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def message_size(data: bytes) -> int | None:
    """How long the first HTTP message in `data` is, going by its Content-Length; None while its head is open."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return None
    fields = data[: head + 2].lower()
    length = fields.find(b"\r\ncontent-length:")
    if length < 0:
        return head + 4
    return head + 4 + int(fields[length + 17 : fields.index(b"\r\n", length + 17)])


def text_after(data: bytes, mark: bytes, default: bytes | None = None) -> bytes:
    """What stands between `mark` and the next quotation mark. Raises ValueError without `mark` and `default`."""
    start = data.find(mark)
    if start < 0 and default is not None:
        return default
    begin = data.index(mark) + len(mark)
    return data[begin : data.index(b'"', begin)]
