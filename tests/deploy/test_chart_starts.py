"""The command and the environment that the chart gives a pod start the real gateway."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy import charts
from tests.deploy.tools import beside_python, free_ports, until

SECRETS = {"toolgate": {"jwt-secret": "a-secret-of-at-least-32-bytes-ours", "MAIL_TOKEN": "a-token-of-the-fleet"}}
STOP_S = 20.0


def _values() -> charts.Values:
    """One pod, whose configuration takes a secret from a variable, one from a whole Secret, and one from a file."""
    port, admin_port = free_ports(2)
    changed: charts.Values = {
        "config": {
            "server": {"port": port, "admin": {"port": admin_port}},
            "auth": {"jwt": [{"secret": "${env:JWT_SECRET}"}]},
            "state": {"keys": ["${file:/run/secrets/toolgate/state-key}"]},
            "backends": {"calculator": {"url": "http://127.0.0.1:1", "auth": {"bearer": "${env:MAIL_TOKEN}"}}},
        },
        "env": [{"name": "JWT_SECRET", "valueFrom": {"secretKeyRef": {"name": "toolgate", "key": "jwt-secret"}}}],
        "envFrom": [{"secretRef": {"name": "toolgate"}}],
        "volumes": [{"name": "state-key", "secret": {"secretName": "state"}}],
        "volumeMounts": [{"name": "state-key", "mountPath": "/run/secrets/toolgate", "readOnly": True}],
    }
    return charts.values("minimal", changed)


def _environment(container: dict[str, Any]) -> dict[str, str]:
    """The variables of a container, as Kubernetes fills them in."""
    variables: dict[str, str] = {}
    for source in container["envFrom"]:
        variables |= SECRETS[source["secretRef"]["name"]]
    for variable in container["env"]:
        key = variable["valueFrom"]["secretKeyRef"]
        variables[variable["name"]] = SECRETS[key["name"]][key["key"]]
    return variables


def test_the_rendered_command_serves_and_answers_every_probe(tmp_path: Path) -> None:
    manifests = charts.render(_values())
    container = charts.container(manifests)
    (tmp_path / "state-key").write_text("k" * 32)
    (tmp_path / "gateway.yaml").write_text(
        charts.configuration(manifests).replace("/run/secrets/toolgate", str(tmp_path))
    )
    arguments = [argument.replace("/etc/toolgate", str(tmp_path)) for argument in container["args"]]
    environment = {"PATH": os.environ["PATH"]} | _environment(container)
    with subprocess.Popen([beside_python("toolgate"), *arguments], env=environment, cwd=tmp_path) as process:
        try:
            _probe(container)
        finally:
            process.terminate()
        assert process.wait(STOP_S) == 0


def _probe(container: dict[str, Any]) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[name]["httpGet"]
        url = f"http://127.0.0.1:{ports[probe['port']]}{probe['path']}"
        until(lambda url=url: _answers(url), f"{name} succeeds")  # type: ignore[misc]
    assert httpx.get(f"http://127.0.0.1:{ports['http']}/health", trust_env=False).json() == {"status": "ok"}
    assert httpx.get(f"http://127.0.0.1:{ports['http']}/tools", trust_env=False).status_code == 401


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("name", charts.CONFIGURING)
def test_every_variable_that_a_configuration_names_comes_from_somewhere(name: str) -> None:
    manifests = charts.render(charts.values(name))
    container = charts.container(manifests)
    given = {variable["name"] for variable in container.get("env", ())}
    named = {part.split("}")[0] for part in charts.configuration(manifests).split("${env:")[1:]}
    assert named <= given or container.get("envFrom")
    paths = [part.split("}")[0] for part in charts.configuration(manifests).split("${file:")[1:]]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert all(any(path.startswith(f"{mount}/") for mount in mounts) for path in paths)
