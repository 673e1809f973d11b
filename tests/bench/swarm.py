"""The callers: keep-alive connections, each with at most one call under way; closed loop, or open at a rate.

Plain sockets instead of an HTTP library, so that the load costs little beside what is measured and the echo is not
held back. Every answer is checked: a benchmark of errors is none.
"""

from __future__ import annotations

import re
import socket
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from tests.bench.calls import SENT_NS, Answer
from tests.bench.machine import BenchError
from tests.bench.poller import Peer, Poller

REPLY_TIMEOUT_S = 10.0  # a loopback call takes milliseconds; silence for this long means it hangs
LEAST = 3  # calls a connection, in each stretch of load
HANDOVER = re.compile(re.escape(SENT_NS) + rb"([0-9]+)")


@dataclass(frozen=True, slots=True)
class Timings:
    """One stretch of load: how many calls were answered in `wall_s`, and how long each took.

    `handovers_ns`: from the moment a tool server called back to the answer; none of tools that answer at once.
    """

    wall_s: float
    latencies_ns: array[int]
    handovers_ns: array[int]

    @classmethod
    def joined(cls, stretches: Iterable[Timings]) -> Timings:
        """Several stretches as if they were one."""
        wall_s, latencies, handovers = 0.0, array("q"), array("q")
        for each in stretches:
            wall_s += each.wall_s
            latencies += each.latencies_ns
            handovers += each.handovers_ns
        return cls(wall_s, latencies, handovers)

    @property
    def calls(self) -> int:
        return len(self.latencies_ns)


def percentile_ms(measured_ns: array[int], percent: float) -> float:
    """The time that `percent` of those measured did not exceed."""
    rank = min(len(measured_ns) - 1, int(len(measured_ns) * percent / 100))
    return sorted(measured_ns)[rank] / 1e6


class Line(Peer):
    """One connection with at most one call under way."""

    __slots__ = ("_answers", "_head", "_proof", "_waits", "sent_ns")

    def __init__(self, poller: Poller, port: int, answer: Answer, answers: list[tuple[Line, bytes]]) -> None:
        super().__init__(poller, socket.create_connection(("127.0.0.1", port), REPLY_TIMEOUT_S), self._receive)
        self._head, self._proof = b"HTTP/1.1 %d " % answer.status, answer.proof.encode()
        self._answers = answers
        self._waits = False
        self.sent_ns = 0

    def send(self, data: bytes) -> None:
        """Sends a call."""
        self._waits, self.sent_ns = True, time.perf_counter_ns()
        super().send(data)

    def _receive(self, _: Peer, data: bytes) -> None:
        """Adds an answer to the list. Raises BenchError for one that is not expected."""
        if not self._waits or not data.startswith(self._head) or self._proof not in data:
            raise BenchError(f"A call was not answered as it must be, but with: {data[:600]!r}")
        self._waits = False
        self._answers.append((self, data))

    def _hung_up(self) -> None:
        raise BenchError("A connection was closed before its call was answered.")


class Swarm:
    """So many connections to one server, every one with a call under way from the start."""

    def __init__(self, poller: Poller, port: int, requests: Iterator[bytes], answer: Answer, connections: int) -> None:
        self._poller = poller
        self._requests = requests
        self._answers: list[tuple[Line, bytes]] = []
        self._port, self._answer = port, answer
        self._lines: list[Line] = []
        self._open = 0
        self.grow(connections)

    def __len__(self) -> int:
        return len(self._lines)

    def grow(self, connections: int) -> None:
        """Adds so many connections, with a call under way on each."""
        for _ in range(connections):
            line = Line(self._poller, self._port, self._answer, self._answers)
            self._lines.append(line)
            line.send(next(self._requests))
        self._open += connections

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.close()

    def warm_up(self, seconds: float) -> None:
        """Waits until every connection was answered once, for first calls are slow; then keeps all of them busy.

        A server that is kept busy from the first one on may take the last one in only seconds later.
        """
        self.finish()
        for line in self._lines:
            line.send(next(self._requests))
        self._open = len(self._lines)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line, _ in self._answered():
                line.send(next(self._requests))

    def repeat(self, calls: int) -> None:
        """Has so many calls answered, those under way included, and waits for all of them."""
        for _ in range(calls - len(self._lines)):
            (line, _), *rest = self._answered()
            self._answers[:0] = rest
            line.send(next(self._requests))
        self.finish()

    def run(self, seconds: float) -> Timings:
        """Keeps every connection busy for `seconds`; the calls then under way stay so.

        A slow server gets the time to answer `LEAST` calls a connection: answers may come all at once, and the work on
        those that are under way at the end must not weigh.
        """
        latencies, handovers = array("q"), array("q")
        clock, requests = time.perf_counter_ns, self._requests
        begin = clock()
        end = begin + int(seconds * 1e9)
        least = LEAST * len(self._lines)
        while clock() < end or len(latencies) < least:
            for line, answer in self._answered():
                latencies.append((now := clock()) - line.sent_ns)
                line.send(next(requests))
                _note_handover(answer, now, handovers)
        return Timings((clock() - begin) / 1e9, latencies, handovers)

    def run_paced(self, seconds: float, rate: float) -> Timings:
        """Sends `rate` calls a second whatever becomes of them, and waits for all answers.

        Latencies count from when a call was due, so that one that finds no free connection is late all the same. A
        server that does not keep up gets fewer calls: nothing is sent any more after twice the time.
        """
        self.finish()
        latencies, handovers = array("q"), array("q")
        clock, idle, due_ns = time.perf_counter_ns, deque(self._lines), {}
        begin, gap_ns = clock(), 1e9 / rate
        sent, wanted, give_up = 0, max(1, int(seconds * rate)), begin + int(2 * seconds * 1e9)
        while len(latencies) < wanted:
            while idle and sent < wanted and (due := begin + int(sent * gap_ns)) <= clock():
                line, sent = idle.popleft(), sent + 1
                due_ns[line] = due
                line.send(next(self._requests))
            for line, answer in self._answered(wait=not idle or sent == wanted):
                latencies.append((now := clock()) - due_ns[line])
                _note_handover(answer, now, handovers)
                idle.append(line)
            if clock() > give_up:
                wanted = sent
        self._open = 0
        return Timings((clock() - begin) / 1e9, latencies, handovers)

    def finish(self) -> None:
        """Waits for the answers to the calls under way, so that no server sees a caller break off."""
        while self._open:
            self._open -= len(self._answered())

    def _answered(self, *, wait: bool = True) -> list[tuple[Line, bytes]]:
        """Connections whose calls have been answered, with the answers: some, unless it need not `wait`.

        Raises:
            BenchError: there is none for a long time.
        """
        give_up = time.monotonic() + REPLY_TIMEOUT_S
        self._poller.turn()
        while wait and not self._answers:
            self._poller.turn()
            if time.monotonic() > give_up:
                raise BenchError(f"No call was answered for {REPLY_TIMEOUT_S:.0f} s.")
        answers = self._answers[:]
        self._answers.clear()
        return answers


def _note_handover(answer: bytes, now_ns: int, handovers_ns: array[int]) -> None:
    sent = HANDOVER.search(answer)
    if sent is not None:
        handovers_ns.append(now_ns - int(sent[1]))
