"""The load generator refuses to measure anything but right answers."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.bench import credentials
from tests.bench.calls import OTC, OXP, Answer, Form, Script
from tests.bench.children import child, demand, status_of, wait_until
from tests.bench.machine import BenchError
from tests.bench.poller import Poller, message_size, reply
from tests.bench.swarm import Swarm, percentile_ms
from tests.bench.toolserver import OxpServer, RestServer

BEARERS = credentials.hs256().bearers
SCRIPT = Script(10, BEARERS)
FOUND = Answer()
PROOF = Answer(200, "proof")
ANSWER = reply(b'{"value":"proof"}')


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.close()


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


def test_every_connection_keeps_calling_until_the_time_is_over(poller: Poller) -> None:
    with (
        closing(OxpServer(poller, 10)) as server,
        Swarm(poller, server.port, SCRIPT.requests(), FOUND, 4) as swarm,
    ):
        swarm.warm_up(0.01)
        timings = swarm.run(0.05)
        swarm.finish()
    assert timings.calls > 4
    assert timings.wall_s >= 0.05
    assert 0 < percentile_ms(timings.latencies_ns, 50) <= percentile_ms(timings.latencies_ns, 99) < 1000


@pytest.mark.parametrize(("kind", "form"), [(OxpServer, OXP), (RestServer, OTC)])
def test_tool_servers_answer_at_once_whatever_they_speak(
    kind: type[OxpServer | RestServer], form: Form, poller: Poller
) -> None:
    script = Script(10, BEARERS, form)
    requests = script.requests(keyed=True)
    with closing(kind(poller, 10)) as server, Swarm(poller, server.port, requests, FOUND, 2) as swarm:
        swarm.finish()


def test_a_pace_is_kept_however_fast_the_answers_are_and_given_up_where_it_cannot_be(poller: Poller) -> None:
    with (
        closing(OxpServer(poller, 10)) as server,
        Swarm(poller, server.port, SCRIPT.requests(), FOUND, 4) as swarm,
    ):
        kept = swarm.run_paced(0.2, 100)
        given_up = swarm.run_paced(0.05, 1e7)
    assert kept.calls == 20
    assert kept.wall_s >= 0.19  # the last call is due a gap before the end
    assert 0 < given_up.calls < 500_000
    assert given_up.wall_s >= 0.1


def test_an_answer_that_comes_in_pieces_is_whole(poller: Poller) -> None:
    with (
        answering(ANSWER[:10], ANSWER[10:-3], ANSWER[-3:]) as port,
        Swarm(poller, port, SCRIPT.requests(), PROOF, 1) as swarm,
    ):
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
def test_anything_but_the_expected_answer_ends_the_benchmark(answer: bytes, complaint: str, poller: Poller) -> None:
    with (
        answering(answer) as port,
        Swarm(poller, port, SCRIPT.requests(), PROOF, 1) as swarm,
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


def test_a_server_that_lets_in_a_caller_without_a_token_is_not_measured() -> None:
    with answering(ANSWER.replace(b"200 OK", b"401 No")) as port:
        demand(401, status_of(port, SCRIPT.ordinary()[0]))
    with answering(ANSWER) as port, pytest.raises(BenchError, match="Answered 200 where 401 is due"):
        demand(401, status_of(port, SCRIPT.ordinary()[0]))


@pytest.mark.parametrize(("code", "shown"), [("print('no port'); exit(3)", "no port"), ("exit(3)", "")])
def test_a_server_that_does_not_start_ends_the_benchmark_with_its_log(code: str, shown: str, tmp_path: Path) -> None:
    command, log = [sys.executable, "-c", code], tmp_path / "log"
    with (
        child(command, frozenset(os.sched_getaffinity(0)), log) as process,
        pytest.raises(BenchError, match=f"ended with code 3.\n{shown}"),
    ):
        wait_until(lambda: False, process, log)
