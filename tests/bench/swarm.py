"""The callers: a closed loop over keep-alive connections, each sending its next call when the last is answered.

Plain sockets and epoll instead of an HTTP library, so that the load costs little beside what is measured
and the echo is not held back. Every answer is checked: a benchmark of errors is none.
"""

from __future__ import annotations

import select
import socket
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from types import TracebackType
from typing import Self

from tests.bench.machine import BenchError
from tests.bench.toolserver import message_size

REPLY_TIMEOUT_S = 10.0  # a loopback call takes milliseconds; silence for this long means it hangs
REPLY_BYTES = 65536  # answers are under 1 KB


@dataclass(frozen=True, slots=True)
class Timings:
    """One stretch of load: how many calls were answered in `wall_s`, and how long each took."""

    wall_s: float
    latencies_ns: array[int]

    @classmethod
    def joined(cls, stretches: Iterable[Timings]) -> Timings:
        """Several stretches as if they were one."""
        wall_s, latencies = 0.0, array("q")
        for each in stretches:
            wall_s += each.wall_s
            latencies += each.latencies_ns
        return cls(wall_s, latencies)

    @property
    def calls(self) -> int:
        return len(self.latencies_ns)

    def percentile_ms(self, percent: float) -> float:
        """The latency that `percent` of the calls did not exceed."""
        rank = min(self.calls - 1, int(self.calls * percent / 100))
        return sorted(self.latencies_ns)[rank] / 1e6


class Line:
    """One connection with at most one call under way."""

    __slots__ = ("_proof", "_rest", "_socket", "sent_ns")

    def __init__(self, address: tuple[str, int], proof: bytes) -> None:
        self._socket = socket.create_connection(address, timeout=REPLY_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._proof = proof
        self._rest = b""
        self.sent_ns = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, request: bytes) -> None:
        """Sends a call. The socket's buffer is empty between calls, so the whole of it fits."""
        self.sent_ns = time.perf_counter_ns()
        self._socket.sendall(request)

    def receive(self) -> bool:
        """Takes what has arrived and says whether the answer is complete.

        Raises:
            BenchError: the connection was closed, or the answer is not the one expected.
        """
        data = self._socket.recv(REPLY_BYTES)
        if not data:
            raise BenchError("A connection was closed before its call was answered.")
        data = self._rest + data
        size = message_size(data)
        if size is None or len(data) < size:
            self._rest = data
            return False
        self._rest = b""
        if len(data) > size or not data.startswith(b"HTTP/1.1 200 ") or self._proof not in data:
            raise BenchError(f"A call was not answered as it must be, but with: {data[:600]!r}")
        return True

    def close(self) -> None:
        self._socket.close()


class Swarm:
    """So many connections to one server, every one with a call under way from the start."""

    def __init__(self, port: int, requests: list[bytes], proof: str, connections: int) -> None:
        self._requests: Iterator[bytes] = cycle(requests)
        self._lines: dict[int, Line] = {}
        self._epoll = select.epoll()
        for _ in range(connections):
            line = Line(("127.0.0.1", port), proof.encode())
            self._lines[line.fileno()] = line
            self._epoll.register(line.fileno(), select.EPOLLIN)
            line.send(next(self._requests))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for line in self._lines.values():
            line.close()
        self._epoll.close()

    def warm_up(self, seconds: float) -> None:
        """Keeps every connection busy for `seconds`, and until each was answered once: first calls are slow.

        Raises:
            BenchError: a connection is not answered while others are.
        """
        unanswered = set(self._lines.values())
        end = time.monotonic() + seconds
        while unanswered or time.monotonic() < end:
            if time.monotonic() > end + REPLY_TIMEOUT_S:
                raise BenchError(f"{len(unanswered)} connections were not answered for {REPLY_TIMEOUT_S:.0f} s.")
            for line in self._answered():
                unanswered.discard(line)
                line.send(next(self._requests))

    def run(self, seconds: float) -> Timings:
        """Keeps every connection busy for `seconds`; the calls then under way stay so."""
        latencies = array("q")
        clock, requests = time.perf_counter_ns, self._requests
        begin = clock()
        end = begin + int(seconds * 1e9)
        while clock() < end:
            for line in self._answered():
                latencies.append(clock() - line.sent_ns)
                line.send(next(requests))
        if not latencies:
            raise BenchError(f"No call was answered within {seconds} s.")
        return Timings((clock() - begin) / 1e9, latencies)

    def finish(self) -> None:
        """Waits for the answers to the calls under way, so that no server sees a caller break off."""
        open_calls = len(self._lines)
        while open_calls:
            open_calls -= sum(1 for _ in self._answered())

    def _answered(self) -> Iterator[Line]:
        # Never asleep: waking a process is charged to whoever writes to it, and costs a subject on a virtual machine
        # up to 10 us a call, the more the longer its calls take. The subject alone is to be measured.
        give_up = time.monotonic() + REPLY_TIMEOUT_S
        while not (events := self._epoll.poll(0)):
            if time.monotonic() > give_up:
                raise BenchError(f"No call was answered for {REPLY_TIMEOUT_S:.0f} s.")
        for fd, _ in events:
            line = self._lines[fd]
            if line.receive():
                yield line
