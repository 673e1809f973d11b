"""`toolgate call` and tools that outlast the gateway's patience: it waits on, and says how to come back."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminal import (
    DEADLINE_S,
    TOOLGATE,
    Running,
    entered,
    eventually,
    healthy,
    running,
    tool_server,
)

CONFIG = """
server: {port: 0, admin: {port: 0}}
auth: none
backends:
  builds: {protocol: callback, url: "%s"}
routes:
  - {tools: "*", backend: builds, timeout: 100ms}
"""
LONG = ("call", "Builds.build", "seconds=600", "--call-id")


FEW_POLLS = """
rate_limits:
  - {name: polls, key: caller, rate: 30/m, burst: 1, operations: [poll]}
"""


@dataclass(frozen=True)
class Site:
    """A tool server that answers later, and the gateway in front of it."""

    builds: str
    url: str

    def executions(self, operation: str) -> int:
        """How often a tool has run."""
        with urllib.request.urlopen(f"{self.builds}/executions", timeout=DEADLINE_S) as reply:
            found: dict[str, Any] = json.load(reply)
        return int(found["operations"][operation])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    path = tmp_path_factory.mktemp("resume") / "it.yaml"
    with tool_server("rap_server") as builds, serving(path, CONFIG % builds) as (_, url):
        yield Site(builds, url)


@contextmanager
def serving(path: Path, config: str) -> Iterator[tuple[Running, str]]:
    """A gateway for the length of a block, and its URL."""
    path.write_text(config)
    with running([sys.executable, "-m", "gateway", "serve", "-c", str(path)]) as gateway:
        url = "http://" + json.loads(gateway.wait_for('"message":"listening"'))["public"]
        eventually(lambda: healthy(url), "the gateway is ready")
        yield gateway, url


def consent(url: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=DEADLINE_S).close()


def test_it_waits_for_a_long_call_and_prints_its_value_and_nothing_else(site: Site) -> None:
    before = site.executions("build")
    done = entered("call", "Builds.build", "seconds=0.5", "--url", site.url)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"status": "built", "seconds": 0.5})
    assert done.stderr == "The tool is still running. Waiting for it; Ctrl-C leaves it running.\n"
    assert site.executions("build") == before + 1


def test_looks_that_a_limit_refuses_do_not_end_the_waiting(site: Site, tmp_path: Path) -> None:
    with serving(tmp_path / "few.yaml", CONFIG % site.builds + FEW_POLLS) as (_, url):
        done = entered("call", "Builds.build", "seconds=1.5", "--url", url)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"status": "built", "seconds": 1.5})


def test_two_commands_without_an_id_are_two_calls(site: Site) -> None:
    before = site.executions("lint")
    answers = [entered("call", "Builds.lint", "source=x", "--json", "--url", site.url) for _ in range(2)]
    assert len({json.loads(answer.stdout)["call_id"] for answer in answers}) == 2
    assert site.executions("lint") == before + 2


def test_when_the_time_is_up_it_exits_1_and_says_how_to_come_back(site: Site) -> None:
    done = entered(*LONG, "timed-out", "--timeout", "1", "--json", "--url", site.url)
    assert (done.returncode, json.loads(done.stdout)["error"]["message"]) == (1, "The tool is still running.")
    assert "toolgate call ... --call-id timed-out\n" in done.stderr
    assert "may be called again" not in done.stderr


def test_ctrl_c_leaves_the_call_running_and_says_how_to_come_back(site: Site) -> None:
    before = site.executions("build")
    words = ["call", "Builds.build", "seconds=1.5", "--url", site.url]
    with running([*TOOLGATE, *words]) as command:
        command.wait_for("Ctrl-C leaves it running")
        command.interrupt()
        assert command.ended() == 130
    said = command.err.decode()
    assert "Traceback" not in said
    (call_id,) = re.findall(r"--call-id (\w+)$", said, re.MULTILINE)
    done = entered(*words, "--call-id", call_id)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "built")
    assert site.executions("build") == before + 1


def test_a_call_that_is_cancelled_meanwhile_has_failed(site: Site) -> None:
    with running([*TOOLGATE, *LONG, "cancelled", "--url", site.url]) as command:
        command.wait_for("Ctrl-C leaves it running")
        cancel = urllib.request.Request(f"{site.url}/calls/cancelled", method="DELETE")
        urllib.request.urlopen(cancel, timeout=DEADLINE_S).close()
        assert command.ended() == 1
    assert b"The call was cancelled; the tool may have run." in command.err


def test_an_id_of_another_call_is_refused(site: Site) -> None:
    assert entered("call", "Builds.lint", "source=a", "--call-id", "taken", "--url", site.url).returncode == 0
    done = entered("call", "Builds.lint", "source=b", "--call-id", "taken", "--url", site.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "This call_id was used for a different call.\n"


def test_without_waiting_for_a_consent_it_says_how_to_join_the_call_that_has_begun(site: Site) -> None:
    before = site.executions("deploy")
    words = ("call", "Builds.deploy", "target=staging", "--user-id", "u1", "--url", site.url)
    done = entered(*words)
    assert done.returncode == 2
    (url,) = re.findall(r"^  Open (\S+)$", done.stderr, re.MULTILINE)
    (call_id,) = re.findall(r"repeat the command with --call-id (\w+) when you are done there", done.stderr)
    consent(url)
    eventually(lambda: entered(*words, "--call-id", call_id).returncode == 0, "the deployment ends")
    assert site.executions("deploy") == before + 1


def test_ctrl_c_while_a_begun_call_waits_for_its_consent_says_how_to_come_back(site: Site) -> None:
    words = ("call", "Builds.deploy", "target=staging", "--user-id", "u3", "--url", site.url, "--wait")
    with running([*TOOLGATE, *words]) as command:
        command.wait_for("Ctrl-C gives up")
        command.interrupt()
        assert command.ended() == 130
    assert re.search(rb"--call-id \w{16}\n$", command.err)


def test_with_wait_a_deployment_goes_on_once_the_user_consents(site: Site) -> None:
    words = ("call", "Builds.deploy", "target=staging", "--user-id", "u2", "--url", site.url, "--wait")
    with running([*TOOLGATE, *words]) as command:
        consent(command.wait_for("/connect/").strip())
        assert command.ended() == 0
    assert json.loads(command.out) == {"status": "deployed", "target": "staging"}


def test_a_gateway_that_goes_away_meanwhile_is_reported_with_how_to_come_back(site: Site, tmp_path: Path) -> None:
    with (
        serving(tmp_path / "it.yaml", CONFIG % site.builds) as (gateway, url),
        running([*TOOLGATE, *LONG, "lost", "--url", url]) as command,
    ):
        command.wait_for("Ctrl-C leaves it running")
        gateway.process.kill()
        gateway.ended()
        assert command.ended() == 3
    assert b"--call-id lost\n" in command.err
    assert b"No gateway answers: " in command.err
