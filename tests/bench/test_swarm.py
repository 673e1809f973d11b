"""The load generator refuses to measure anything but right answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.bench import credentials
from tests.bench.calls import Answer, Script
from tests.bench.children import demand, status_of
from tests.bench.machine import BenchError
from tests.bench.poller import Poller, reply
from tests.bench.swarm import Swarm
from tests.bench.toolserver import OxpServer

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


def test_a_server_that_lets_in_a_caller_without_a_token_is_not_measured() -> None:
    with answering(ANSWER.replace(b"200 OK", b"401 No")) as port:
        demand(401, status_of(port, SCRIPT.ordinary()[0]))
    with answering(ANSWER) as port, pytest.raises(BenchError, match="Answered 200 where 401 is due"):
        demand(401, status_of(port, SCRIPT.ordinary()[0]))
