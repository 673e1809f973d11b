"""The load generator refuses to measure anything but right answers."""

from __future__ import annotations

import os
import socket
import sys
import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bench import calls
from tests.bench.children import ask, child, tool_server, wait_until
from tests.bench.machine import BenchError
from tests.bench.rounds import await_arrival
from tests.bench.swarm import Swarm, Timings
from tests.bench.toolserver import message_size, reply

ORDINARY = calls.script(10, 9, "s" * 32).ordinary
ANSWER = reply(b'{"value":"proof"}')


@contextmanager
def answering(*pieces: bytes) -> Iterator[int]:
    """A server that answers whatever arrives first with these pieces, one after the other, and hangs up."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.fixture(scope="module")
def tools_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with tool_server(10, frozenset(os.sched_getaffinity(0)), tmp_path_factory.mktemp("tools")) as port:
        yield port


def test_every_connection_keeps_calling_until_the_time_is_over(tools_port: int) -> None:
    with Swarm(tools_port, ORDINARY, calls.FOUND, 4) as swarm:
        swarm.warm_up(0.01)
        timings = swarm.run(0.05)
        swarm.finish()
    assert timings.calls > 4
    assert timings.wall_s >= 0.05
    assert 0 < timings.percentile_ms(50) <= timings.percentile_ms(99) < 1000


def test_waiting_calls_are_answered_when_they_are_released(tools_port: int) -> None:
    with Swarm(tools_port, [calls.script(10, 9, "s" * 32).waiting], calls.FOUND, 3) as swarm:
        await_arrival(tools_port, 3)
        assert ask(tools_port, "POST", "/release") == (200, b'{"held":3}')
        swarm.finish()


def test_an_answer_that_comes_in_pieces_is_whole() -> None:
    with answering(ANSWER[:10], ANSWER[10:-3], ANSWER[-3:]) as port, Swarm(port, ORDINARY, "proof", 1) as swarm:
        swarm.finish()


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (ANSWER.replace(b"200 OK", b"401 No"), "not answered as it must be"),
        (reply(b'{"value":"something else"}'), "not answered as it must be"),
        (ANSWER + ANSWER, "not answered as it must be"),
        (b"", "closed before"),
        (ANSWER[:-1], "closed before"),
    ],
)
def test_anything_but_the_expected_answer_ends_the_benchmark(answer: bytes, complaint: str) -> None:
    with (
        answering(answer) as port,
        Swarm(port, ORDINARY, "proof", 1) as swarm,
        pytest.raises(BenchError, match=complaint),
    ):
        swarm.finish()


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Le", None),
        (b"GET / HTTP/1.1\r\n\r\n", 18),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12", 43),
        (b"HTTP/1.1 200 OK\r\ncontent-length:5\r\nA: b\r\n\r\n12345", 48),
    ],
)
def test_a_message_is_as_long_as_its_content_length_says(data: bytes, size: int | None) -> None:
    assert message_size(data) == size


def test_percentiles_are_latencies_that_were_measured() -> None:
    timings = Timings(1.0, array("q", [10_000_000, 2_000_000, 3_000_000, 1_000_000]))
    assert timings.percentile_ms(50) == 3.0
    assert timings.percentile_ms(99) == 10.0


@pytest.mark.parametrize(("tools", "called"), [(10, 9), (10_000, 9), (10_000, 9_999)])
def test_every_call_is_another_tool_and_of_300_bytes_whatever_the_catalogue(tools: int, called: int) -> None:
    script = calls.script(tools, called, "s" * 32)
    assert len(set(script.ordinary)) == called
    bodies = {len(request.partition(b"\r\n\r\n")[2]) for request in [*script.ordinary, script.waiting]}
    assert bodies == {calls.BODY_BYTES}
    assert len(calls.definitions(tools)) == tools


@pytest.mark.parametrize(("code", "shown"), [("print('no port'); exit(3)", "no port"), ("exit(3)", "")])
def test_a_server_that_does_not_start_ends_the_benchmark_with_its_log(code: str, shown: str, tmp_path: Path) -> None:
    command, log = [sys.executable, "-c", code], tmp_path / "log"
    with (
        child(command, frozenset(os.sched_getaffinity(0)), log) as process,
        pytest.raises(BenchError, match=f"ended with code 3.\n{shown}"),
    ):
        wait_until(lambda: False, process, log)
