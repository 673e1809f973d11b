"""The load generator refuses to measure anything but right answers."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.bench import calls, credentials
from tests.bench.calls import OTC, OXP, Answer, Form, Script
from tests.bench.children import child, demand, status_of, wait_until
from tests.bench.machine import BenchError
from tests.bench.messages import message_size, post, reply
from tests.bench.poller import Poller
from tests.bench.rapserver import RapServer
from tests.bench.rcrtserver import RcrtServer
from tests.bench.swarm import Swarm, percentile_ms
from tests.bench.toolserver import OtcServer, OxpServer, RestServer, ToolServer
from tests.bench.waiting import await_arrival

BEARERS = credentials.hs256().bearers
SCRIPT = Script(10, 9, BEARERS)
FOUND = Answer()
PROOF = Answer(200, "proof")
ANSWER = reply(b'{"value":"proof"}')


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.close()


@contextmanager
def running(server: ToolServer) -> Iterator[int]:
    """A tool server while its poller is turned; yields its port."""
    try:
        yield server.port
    finally:
        server.close()


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
    with running(OxpServer(poller, 10)) as port, Swarm(poller, port, SCRIPT.requests(), FOUND, 4) as swarm:
        swarm.warm_up(0.01)
        timings = swarm.run(0.05)
        swarm.finish()
    assert timings.calls > 4
    assert timings.wall_s >= 0.05
    assert 0 < percentile_ms(timings.latencies_ns, 50) <= percentile_ms(timings.latencies_ns, 99) < 1000


@pytest.mark.parametrize(("kind", "form"), [(OxpServer, OXP), (OtcServer, OTC), (RestServer, OTC)])
def test_tool_servers_answer_at_once_whatever_they_speak(
    kind: type[OxpServer | RestServer], form: Form, poller: Poller
) -> None:
    script = Script(10, 9, BEARERS, form)
    with running(kind(poller, 10)) as port, Swarm(poller, port, script.requests(keyed=True), FOUND, 2) as swarm:
        swarm.finish()


def test_a_slow_server_gets_the_time_to_answer_every_connection(poller: Poller) -> None:
    with running(OxpServer(poller, 10)) as port, Swarm(poller, port, SCRIPT.requests(), FOUND, 4) as swarm:
        timings = swarm.run(0.0)
        swarm.finish()
    assert timings.calls >= 12


def test_what_is_expected_may_be_a_refusal(poller: Poller) -> None:
    refusal = reply(b'{"message":"no"}').replace(b"200 OK", b"401 No")
    with (
        answering(refusal) as port,
        Swarm(poller, port, SCRIPT.requests(), Answer(401, '"message"'), 1) as swarm,
    ):
        swarm.finish()


def test_a_pace_is_kept_however_fast_the_answers_are(poller: Poller) -> None:
    with running(OxpServer(poller, 10)) as port, Swarm(poller, port, SCRIPT.requests(), FOUND, 4) as swarm:
        timings = swarm.run_paced(0.2, 100)
    assert timings.calls == 20
    assert timings.wall_s >= 0.19  # the last call is due a gap before the end


def test_a_pace_that_cannot_be_kept_is_given_up(poller: Poller) -> None:
    with running(OxpServer(poller, 10)) as port, Swarm(poller, port, SCRIPT.requests(), FOUND, 4) as swarm:
        timings = swarm.run_paced(0.05, 1e7)
    assert 0 < timings.calls < 500_000
    assert timings.wall_s >= 0.1


def test_waiting_calls_are_answered_when_they_are_released(poller: Poller) -> None:
    server = OxpServer(poller, 10)
    with running(server) as port, Swarm(poller, port, cycle(SCRIPT.waiting()), FOUND, 3) as swarm:
        await_arrival(poller, server, 3)
        server.release()
        swarm.finish()
    assert server.held == 0


def exchange(poller: Poller, port: int, request: bytes) -> bytes:
    """Sends a request to a server of the same thread and returns the first of its answer."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        connection.setblocking(False)
        while True:
            poller.turn(0.01)
            try:
                return connection.recv(65536)
            except BlockingIOError:
                continue


def test_what_is_put_off_is_done_in_the_order_in_which_it_is_due(poller: Poller) -> None:
    done: list[str] = []
    poller.put_off(2_000_000, lambda: done.append("later"))
    poller.put_off(1_000_000, lambda: done.append("sooner"))
    deadline = time.monotonic() + 5
    while len(done) < 2 and time.monotonic() < deadline:
        poller.turn(0.001)
    assert done == ["sooner", "later"]


def test_a_tool_server_that_calls_back_says_when_it_did(poller: Poller) -> None:
    with running(RapServer(poller, 10)) as port, socket.create_server(("127.0.0.1", 0)) as gateway:
        url = f"http://127.0.0.1:{gateway.getsockname()[1]}/callbacks/token"
        asked: dict[str, Any] = {
            "operation": "Find00000",
            "arguments": {},
            "id": "tg-1",
            "call_id": None,
            "callback_url": url,
        }
        body = json.dumps(asked | {"group_id": "once"}, separators=(",", ":")).encode()
        assert exchange(poller, port, post("/invoke", port, body)).startswith(b"HTTP/1.1 200 ")
        gateway.setblocking(False)
        while True:
            poller.turn(0.01)
            try:
                connection, _ = gateway.accept()
                break
            except BlockingIOError:
                continue
        with connection:
            connection.setblocking(True)
            called_back = connection.recv(65536)
    head, _, result = called_back.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /callbacks/token HTTP/1.1")
    message = json.loads(result)
    assert (message["type"], message["id"], message["group_id"]) == ("tool_result", "tg-1", "once")
    value = json.loads(message["text"])
    assert value["found"] == calls.FOUND
    assert value["sent_ns"] > 0


def test_a_breadcrumb_server_answers_on_its_stream(poller: Poller) -> None:
    server = RcrtServer(poller, 10)
    with running(server) as port, socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(b"GET /events/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        poller.serve_for(0.01)
        context = {"tool": "Find00000", "input": {}, "requestId": "tg-1"}
        body = json.dumps({"schema_name": "tool.request.v1", "context": context}, separators=(",", ":")).encode()
        assert b'{"id":"' in exchange(poller, port, post("/breadcrumbs", port, body))
        stream.settimeout(5)
        told = b""
        while b"tool.response.v1" not in told:
            told += stream.recv(65536)
    asked, response = [json.loads(line[6:]) for line in told.split(b"\n") if line.startswith(b'data: {"b')]
    assert "gateway:tg-1" in asked["tags"]
    assert response["context"]["request_id"] == "tg-1"
    assert response["context"]["output"]["found"] == calls.FOUND
    assert server.streams == 1


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


def test_percentiles_are_times_that_were_measured() -> None:
    measured = array("q", [10_000_000, 2_000_000, 3_000_000, 1_000_000])
    assert percentile_ms(measured, 50) == 3.0
    assert percentile_ms(measured, 99) == 10.0


def test_a_server_that_lets_in_whoever_comes_is_not_measured() -> None:
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
