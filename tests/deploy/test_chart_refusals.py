"""Values that are refused, each with a message that says where and why."""

from __future__ import annotations

import helm_python
import pytest

from tests.deploy.charts import Values, render, values

ALONE = "config.state.url is not set: pods that share no Redis would run a repeated call twice"
KEYLESS = "config.state.keys is not set: pods that have no key in common cannot read what others keep, and would run a"
URL = {"url": "redis://127.0.0.1:6379/0"}
KEYS = {"keys": ["${env:STATE_KEY}"]}
REFUSED: list[tuple[Values, str]] = [
    ({"replicaCount": 2}, f"replicaCount is 2, but {ALONE}"),
    ({"autoscaling": {"enabled": True, "maxReplicas": 4}}, f"autoscaling.maxReplicas is 4, but {ALONE}"),
    ({"replicaCount": 2, "config": {"state": KEYS}}, f"replicaCount is 2, but {ALONE}"),
    ({"replicaCount": 2, "config": {"state": URL}}, f"replicaCount is 2, but {KEYLESS} repeated call twice"),
    ({"autoscaling": {"enabled": True}, "config": {"state": {**URL, "keys": []}}}, f"maxReplicas is 6, but {KEYLESS}"),
    ({"replicaCounts": 2}, "additional properties 'replicaCounts' not allowed"),
    ({"replicaCount": "two"}, "at '/replicaCount': got string, want integer"),
    ({"image": {"tagg": "1"}}, "at '/image': additional properties 'tagg' not allowed"),
    ({"image": {"digest": "latest"}}, "at '/image/digest': 'latest' does not match pattern"),
    ({"service": {"type": "Clusterip"}}, "at '/service/type': value must be one of 'ClusterIP', 'NodePort'"),
    ({"ingress": {"enabled": True}}, "ingress.enabled needs ingress.hosts"),
    ({"env": [{"nam": "X"}]}, "at '/env/0': missing property 'name'"),
    ({"resources": {"request": {}}}, "at '/resources': additional properties 'request' not allowed"),
    ({"networkPolicy": {"callers": [{"pods": {}}]}}, "at '/networkPolicy/callers/0': additional properties 'pods'"),
    ({"config": {"auth": "nobody"}}, "at '/config/auth': value must be 'none'"),
    ({"config": {"routes": []}}, "at '/config/routes': minItems: got 0, want 1"),
    ({"config": {"server": {"shutdown_grace": "30"}}}, "at '/config/server/shutdown_grace': '30' does not match"),
    ({"config": {"server": {"host": "127.0.0.1"}}}, "config.server.host is 127.0.0.1, where nothing outside"),
    ({"config": {"server": {"admin": {"host": "::1"}}}}, "config.server.admin.host is ::1, where nothing outside"),
    ({"config": {"server": {"port": 9464}}}, "config.server.port and config.server.admin.port must differ"),
    (
        {"config": {"state": {**URL, **KEYS}}, "autoscaling": {"enabled": True, "minReplicas": 7}},
        "autoscaling.minReplicas must not be greater than autoscaling.maxReplicas",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_wrong_values_are_refused_by_name(wrong: Values, message: str) -> None:
    with pytest.raises(helm_python.HelmError) as caught:
        render(values("minimal", wrong))
    assert message in str(caught.value)


def test_without_a_configuration_there_is_nothing_to_install() -> None:
    with pytest.raises(
        helm_python.HelmValuesError, match="at '/config': missing properties 'auth', 'backends', 'routes'"
    ):
        render({})


def test_replicas_with_a_state_url_and_keys_are_not_refused() -> None:
    assert render(values("minimal", {"replicaCount": 2, "config": {"state": {**URL, **KEYS}}}))
