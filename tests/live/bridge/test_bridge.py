"""`toolgate bridge` as it is run: a real process behind it, written by hand, that answers, hangs, crashes and ends."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.bridge.program import Program
from gateway.bridge.relay import ENDED, MAX_UNSENT_BYTES
from gateway.cli.output import FAILED, USAGE
from gateway.protocols.mcp.wire import CAPABILITIES_MEMBER, MODERN, VERSION_MEMBER
from tests import plainhttp
from tests.support.terminal import ROOT, TOOLGATE, Running, entered, eventually, gone, running

BY_HAND = (sys.executable, "-I", str(ROOT / "tests/support/stdio_mcp_server.py"))
CANARY = "canary-in-an-argument"


@dataclass
class Bridge:
    """A bridge that runs."""

    command: Running
    url: str
    http: httpx.Client
    pid: int

    def post(self, message: Any, session: str = "s") -> httpx.Response:
        return self.http.post(self.url, json=message, headers={"mcp-session-id": session})

    def call(self, name: str, id_: Any = 1, session: str = "s", **arguments: Any) -> Any:
        """The response to a call; legacy."""
        params = {"name": name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
        return self.post(message, session).json()

    def text(self, name: str, **more: Any) -> str:
        text: str = self.call(name, **more)["result"]["content"][0]["text"]
        return text

    def lines(self, message: str) -> list[Any]:
        """The lines of its log with that message."""
        self.command.wait_for(f'"message":"{message}"')
        lines = [json.loads(line) for line in self.command.err.decode().splitlines() if line.endswith("}")]
        return [line for line in lines if line["message"] == message]


@contextmanager
def bridge(kind: str, *options: str) -> Iterator[Bridge]:
    with running([*TOOLGATE, "bridge", "--port", "0", *options, "--", *BY_HAND, kind]) as command:
        (url,) = re.findall(r"http://\S+/mcp", command.wait_for("Serving "))
        with plainhttp.client() as http:
            yield Bridge(command, url, http, json.loads(command.wait_for('"message":"ready"'))["pid"])


@pytest.fixture(scope="module")
def legacy() -> Iterator[Bridge]:
    """One for all tests that leave it as it was: which kind of server it is, it has found out by itself."""
    with bridge("legacy") as running_bridge:
        yield running_bridge


def test_its_callers_find_the_tools_after_initialize_and_call_them(legacy: Bridge) -> None:
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin}
    reply = legacy.post(asked)
    assert reply.json()["result"]["serverInfo"]["name"] == "by hand"
    assert reply.headers["mcp-session-id"]
    listed = legacy.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()
    assert "echo" in [tool["name"] for tool in listed["result"]["tools"]]
    assert json.loads(legacy.text("echo", a=CANARY)) == {"a": CANARY}


def test_responses_that_come_in_another_order_find_their_callers_who_count_alike(legacy: Bridge) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, other = (pool.submit(legacy.text, "swap", session=name, of=name) for name in "ab")
        assert [json.loads(call.result()) for call in (one, other)] == [{"of": "a"}, {"of": "b"}]


def test_what_the_server_asks_of_its_client_is_refused_at_once(legacy: Bridge) -> None:
    assert legacy.text("ask") == "refused: -32601"


def test_a_call_is_cancelled_by_its_own_session_alone(legacy: Bridge) -> None:
    with ThreadPoolExecutor(1) as pool:
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "hang", "arguments": {}}}
        call = pool.submit(legacy.post, message, "mine")
        legacy.command.wait_for('"hangs"')
        for session in ("another", "mine"):
            params = {"requestId": 7, "reason": f"asked by {session}"}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            assert legacy.post(message, session).status_code == 202
        assert (call.result().status_code, call.result().content) == (202, b"")
    legacy.command.wait_for("cancelled: asked by mine")
    assert b"asked by another" not in legacy.command.err


def test_the_log_has_what_it_says_on_standard_error_and_nothing_of_messages(legacy: Bridge) -> None:
    legacy.text("complain")
    legacy.text("babble", a=CANARY)
    assert json.loads(legacy.command.wait_for("It is said on standard error."))["message"] == "stderr"
    (line,) = legacy.lines("a line on standard output is no message")
    assert line["bytes"] == len("Listening...\n")
    assert CANARY.encode() not in legacy.command.err
    assert [len(legacy.lines(message)) for message in ("started", "ready")] == [1, 1]


def test_a_server_that_crashes_is_started_again_and_what_was_under_way_may_have_run() -> None:
    with bridge("legacy", "--era", "legacy") as site, ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(site.call, "hang", 1, "a")
        site.command.wait_for('"hangs"')
        assert site.call("crash", 2)["error"]["message"] == ENDED
        assert hanging.result()["error"]["message"] == ENDED
        assert site.text("echo") == "{}"  # waits until the next one is ready
        (pid,) = site.command.children()
        site.command.wait_for(f'"message":"ready","pid":{pid}')
        (ended,) = site.lines("ended")
        assert {name: ended[name] for name in ("pid", "code", "lost_requests")} == {
            "pid": site.pid,
            "code": 3,
            "lost_requests": 2,
        }
        assert site.lines("starts again")[0]["after_s"] == 0.5
        assert gone([site.pid])


def test_a_server_that_ends_at_once_is_started_less_and_less_often_until_the_bridge_is_stopped() -> None:
    with running([*TOOLGATE, "bridge", "--port", "0", "--era", "legacy", "--", *BY_HAND, "exits"]) as command:
        command.wait_for('"after_s":1.0')
        command.process.terminate()
        assert command.ended() == 0
        lines = [json.loads(line) for line in command.err.decode().splitlines()]
        assert [line["after_s"] for line in lines if line["message"] == "starts again"][:2] == [0.5, 1.0]
        assert {line["code"] for line in lines if line["message"] == "ended"} == {5}
        assert "I have no configuration." in {line.get("line") for line in lines}
        assert command.out == b""


def test_a_modern_server_is_recognised_a_caller_that_leaves_cancels_and_the_end_closes_its_input() -> None:
    meta = {VERSION_MEMBER: MODERN, CAPABILITIES_MEMBER: {}}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "hang"}
    params = {"name": "hang", "_meta": meta}
    asked = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params}
    with bridge("modern") as site:
        assert site.lines("ready")[0]["version"] == MODERN

        async def leave() -> None:
            async with plainhttp.async_client() as http:
                call = asyncio.create_task(http.post(site.url, json=asked, headers=headers))
                await asyncio.to_thread(site.command.wait_for, '"hangs"')
                call.cancel()
                await asyncio.wait([call])

        asyncio.run(leave())
        site.command.wait_for("cancelled: The caller has left.")
        site.command.process.terminate()
        assert site.command.ended() == 0
        assert "My input was closed." in [line["line"] for line in site.lines("stderr")]
        assert site.lines("ended")[-1]["code"] == 0
    assert gone([site.pid])


def modern_list(site: Bridge) -> httpx.Response:
    meta = {VERSION_MEMBER: MODERN, CAPABILITIES_MEMBER: {}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": {"_meta": meta}}
    return site.http.post(site.url, json=body, headers={"mcp-protocol-version": MODERN, "mcp-method": "tools/list"})


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


def test_a_server_that_speaks_both_eras_is_served_in_both_by_a_process_for_each() -> None:
    with bridge("both") as site:
        assert modern_list(site).json()["result"]["tools"]
        assert len(site.command.children()) == 1  # nobody has asked for the other
        begun = site.post(INITIALIZE)
        assert begun.json()["result"]["serverInfo"]["name"] == "by hand"
        assert begun.headers["mcp-session-id"]
        assert site.text("echo", a=1) == '{"a": 1}'
        assert modern_list(site).json()["result"]["tools"]
        assert len(site.command.children()) == 2
        site.command.wait_for(f'"version":"{MODERN}"')
        site.command.wait_for('"version":"2025-11-25"')
        assert site.call("crash", 2)["error"]["message"] == ENDED
        assert modern_list(site).json()["result"]["tools"]  # the other one goes on
        assert site.text("echo") == "{}"
        pids = site.command.children()
        site.command.process.terminate()
        assert site.command.ended() == 0
    assert gone(pids)


@pytest.mark.parametrize(("kind", "options", "processes"), [("modern", (), 2), ("both", ("--era", "modern"), 1)])
def test_callers_of_the_era_that_is_not_served_are_told_and_the_server_is_tried_once_for_them(
    kind: str, options: tuple[str, ...], processes: int
) -> None:
    with bridge(kind, *options) as site:
        for _ in range(3):
            refused = site.post(INITIALIZE)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32022)
            assert modern_list(site).json()["result"]["tools"]
        assert len(site.command.children()) == 1
        if processes == 2:
            site.command.wait_for("It has refused initialize.")
        eventually(lambda: len(site.lines("started")) == processes, "as many processes")


def test_what_a_program_does_not_read_is_refused_before_it_fills_the_memory() -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"text": "x" * 3_900_000}}
    with bridge("deaf", "--era", "legacy") as site:
        assert site.text("echo") == "{}"  # and reads no more
        before = memory_bytes(site.command.process.pid)
        replies = [site.post(notification) for _ in range(MAX_UNSENT_BYTES // 3_900_000 + 5)]
        assert {reply.status_code for reply in replies} == {202, 503}
        assert sum(reply.status_code == 202 for reply in replies) * 3_900_000 < 2 * MAX_UNSENT_BYTES
        assert replies[-1].headers["retry-after"] == "1"
        assert site.call("echo")["error"]["code"] == 503
        assert memory_bytes(site.command.process.pid) - before < 4 * MAX_UNSENT_BYTES
        site.command.process.terminate()
        assert site.command.ended() == 0


def test_a_program_that_writes_without_an_end_is_logged_sparingly_holds_nobody_up_and_ends() -> None:
    with bridge("floods-stdout", "--era", "legacy") as site:
        assert site.text("echo") == "{}"
        site.command.wait_for('"left_out":')
        assert site.post(INITIALIZE).json()["result"]["serverInfo"]["name"] == "by hand"
        site.command.process.terminate()
        assert site.command.ended() == 0
        lines = site.lines("a line on standard output is no message")
        assert sum(line.get("left_out", 0) for line in lines) > 10 * len(lines)
    assert gone([site.pid])


def memory_bytes(pid: int) -> int:
    """How much of a process is in memory (proc_pid_status(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


@pytest.mark.anyio
async def test_a_process_that_heeds_neither_the_end_of_its_input_nor_sigterm_is_killed() -> None:
    program = await Program.start([*BY_HAND, "stubborn"])
    program.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    lines = asyncio.Queue[bytes]()
    reading = asyncio.create_task(program.run(lines.put_nowait))
    assert b"tools" in await lines.get()  # it runs, and ignores SIGTERM by now
    assert await program.end(0.05) == -signal.SIGKILL
    await reading
    await asyncio.to_thread(eventually, lambda: gone([program.pid]), "it is gone")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), USAGE, "Write the command of the server after --"),
        (("--port", "0", "--", "/nowhere/server"), FAILED, "Cannot start /nowhere/server: No such file or directory."),
    ],
)
def test_without_a_command_that_can_be_started_it_says_so(words: tuple[str, ...], code: int, said: str) -> None:
    done = entered("bridge", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
