"""`toolgate serve`: where it listens, how it ends, and what it says when it cannot start."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.ports import lasting_port
from tests.support.redis_server import RedisServer
from tests.support.terminal import (
    DEADLINE_S,
    ROOT,
    TOOLGATE,
    Running,
    environment,
    eventually,
    healthy,
    running,
    tool_server,
    toolgate,
)

CONFIG = """
server: {port: 0, admin: {port: 0}}
auth: none
backends: {office: {protocol: otc, url: "%s"}}
routes: [{tools: "*", backend: office}]
"""


@pytest.fixture(scope="module")
def office() -> Iterator[str]:
    with tool_server() as url:
        yield url


@pytest.fixture
def config(office: str, tmp_path: Path) -> Path:
    path = tmp_path / "gateway.yaml"
    path.write_text(CONFIG % office)
    return path


def executions(office: str, tool: str) -> int:
    with urllib.request.urlopen(f"{office}/executions", timeout=DEADLINE_S) as reply:
        return int(json.load(reply)[tool])


def public_url(command: Running) -> str:
    """Where the gateway says it listens."""
    line = json.loads(command.wait_for('"message":"listening"'))
    assert line["logger"] == "gateway.server"
    return f"http://{line['public']}"


def listens(url: str) -> bool:
    """Whether a gateway is ready; False also while none listens."""
    with suppress(urllib.error.URLError):
        return healthy(url)
    return False


def lines_are_json(command: Running) -> bool:
    return all(isinstance(json.loads(line), dict) for line in command.err.splitlines())


def test_it_logs_the_ports_it_was_given(config: Path) -> None:
    with running([*TOOLGATE, "serve", "-c", str(config)]) as command:
        url = public_url(command)
        assert not url.endswith(":0")
        eventually(
            lambda: toolgate("call", "Text.Echo", "value=1", "--url", url).stdout == "1\n", "the tools are known"
        )
        command.interrupt()
        assert command.ended() == 0
    assert lines_are_json(command)
    assert json.loads(command.err.splitlines()[-1])["message"] == "stopped"


def test_without_a_name_it_takes_gateway_yaml_where_it_is_started(config: Path) -> None:
    with running([*TOOLGATE, "serve"], cwd=config.parent) as command:
        public_url(command)
        command.process.terminate()
        assert command.ended() == 0


def test_ports_of_the_command_line_replace_those_of_the_file(config: Path) -> None:
    config.write_text(config.read_text().replace("{port: 0, admin", "{port: 1, admin"))
    with running([*TOOLGATE, "serve", "-c", str(config), "--port", "0", "--admin-port", "0"]) as command:
        assert not public_url(command).endswith(":1")
        config.write_text(config.read_text() + "\n")
        command.process.send_signal(signal.SIGHUP)
        command.wait_for("the configuration was read again")  # without "takes effect at the next start"
        command.interrupt()
        assert command.ended() == 0
    assert b"next start" not in command.err


def test_sigterm_lets_a_slow_call_finish(config: Path, office: str) -> None:
    before = executions(office, "Clock.Sleep")
    with running([*TOOLGATE, "serve", "-c", str(config)]) as command:
        url = public_url(command)
        eventually(lambda: healthy(url), "the tools are known")
        with running([*TOOLGATE, "call", "Clock.Sleep", "seconds=0.5", "--url", url]) as caller:
            eventually(lambda: executions(office, "Clock.Sleep") > before, "the call runs")
            command.process.terminate()
            assert caller.ended() == 0
            assert json.loads(caller.out) == {"slept_s": 0.5}
        assert command.ended() == 0
    assert b'"draining"' in command.err


def test_ctrl_c_in_a_call_leaves_no_traceback_and_exits_130(config: Path, office: str) -> None:
    before = executions(office, "Clock.Sleep")
    with running([*TOOLGATE, "serve", "-c", str(config)]) as command:
        url = public_url(command)
        eventually(lambda: healthy(url), "the tools are known")
        with running([*TOOLGATE, "call", "Clock.Sleep", "seconds=30", "--url", url]) as caller:
            eventually(lambda: executions(office, "Clock.Sleep") > before, "the call runs")
            caller.interrupt()
            assert caller.ended() == 130
            said = caller.err.decode().splitlines()
            assert (caller.out, said[0]) == (b"", "The tool may still be running.")
            assert re.fullmatch(r"For its result repeat .* --call-id \w{16}", said[1])
            assert len(said) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_redis_without_keys_for_its_records_is_a_warning_in_the_log(
    config: Path, tmp_path: Path, workers: int
) -> None:
    (tmp_path / "redis").mkdir()
    redis = RedisServer(tmp_path / "redis")
    text = config.read_text().replace("{port: 0, admin", f"{{workers: {workers}, port: 0, admin")
    config.write_text(f"{text}state: {{url: '{redis.url}'}}\n")
    try:
        with running([*TOOLGATE, "serve", "-c", str(config)]) as command:
            assert json.loads(command.wait_for("state.keys is not set"))["level"] == "warning"
            public_url(command)
    finally:
        redis.kill()


def test_a_door_that_is_open_to_strangers_is_a_warning_in_the_log(config: Path) -> None:
    config.write_text(config.read_text().replace("{port: 0, admin", "{host: 0.0.0.0, port: 0, admin"))
    with running([*TOOLGATE, "serve", "-c", str(config)]) as command:
        line = json.loads(command.wait_for("auth: none lets everybody call who can reach 0.0.0.0"))
    assert line["level"] == "warning"


def test_a_gateway_that_is_given_no_standard_streams_serves_and_ends_with_0(config: Path) -> None:
    port = lasting_port()
    config.write_text(config.read_text().replace("{port: 0, admin", f"{{port: {port}, admin"))
    started = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "-", *TOOLGATE, "serve", "-c", str(config)],
        env=environment(),
        cwd=ROOT,
    )
    try:
        eventually(lambda: listens(f"http://127.0.0.1:{port}"), "it serves")
        started.terminate()
        assert started.wait(DEADLINE_S) == 0
    finally:
        started.kill()
        started.wait()


def test_a_taken_port_is_a_sentence(config: Path, office: str) -> None:
    port = office.rpartition(":")[2]
    config.write_text(config.read_text().replace("{port: 0, admin", f"{{port: {port}, admin"))
    done = toolgate("serve", "-c", str(config))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"Cannot listen on 127.0.0.1:{port}: the port is in use. "
        "Choose another server.port, or --port, or stop what is there."
    )


def test_an_address_of_another_machine_is_a_sentence_that_leads_to_the_host(config: Path) -> None:
    text = config.read_text()
    config.write_text(text.replace("{port: 0, admin: {", "{port: 0, admin: {host: [127.0.0.1, 192.0.2.1], "))
    assert config.read_text() != text
    done = toolgate("serve", "-c", str(config))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Cannot listen on 192.0.2.1:")
    assert last.endswith(": the address is not one of this machine. Correct server.admin.host.")
