"""Values that are refused, each with a message that says where and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from gateway.configfile.web import KEY_IN_QUERY
from gateway.settings.load import json_schema
from tests.deploy.charts import CHART, Values, render, render_unchecked, values

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
    ({"httpRoute": {"enabled": True}}, "httpRoute.enabled needs httpRoute.parentRefs"),
    ({"httpRoute": {"hostnames": ["https://a.example"]}}, "at '/httpRoute/hostnames/0': 'https://a.example' does not"),
    ({"existingConfigMap": "ours"}, "config.auth has no effect beside existingConfigMap. Write it into the ConfigMap"),
    ({"extraContainers": [{"name": "x"}]}, "at '/extraContainers/0': missing property 'image'"),
    ({"env": [{"nam": "X"}]}, "at '/env/0': missing property 'name'"),
    ({"resources": {"request": {}}}, "at '/resources': additional properties 'request' not allowed"),
    ({"networkPolicy": {"callers": [{"pods": {}}]}}, "at '/networkPolicy/callers/0': additional properties 'pods'"),
    ({"config": {"auth": "nobody"}}, "at '/config/auth': value must be 'none'"),
    ({"config": {"server": {"max_bodi": "1MiB"}}}, "at '/config/server': additional properties 'max_bodi' not allowed"),
    ({"config": {"backends": {"calculator": {"protocol": "otcc"}}}}, "at '/config/backends/calculator"),
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


def paths_of_secrets(node: Any, definitions: Any, path: Sequence[str | int] = ()) -> Iterator[Sequence[str | int]]:
    """Where a configuration may have a secret, by its schema; a name or an index stands for all.

    Names of backends have no dots, those of security schemes and of secrets may.
    """
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    if node.get("title", "").startswith("secret"):
        yield path
    for choice in (*node.get("anyOf", ()), *node.get("oneOf", ()), *(each["then"] for each in node.get("allOf", ()))):
        yield from paths_of_secrets(choice, definitions, path)
    for key, value in node.get("properties", {}).items():
        yield from paths_of_secrets(value, definitions, (*path, key))
    if isinstance(node.get("additionalProperties"), dict):
        yield from paths_of_secrets(
            node["additionalProperties"], definitions, (*path, "any" if path == ("backends",) else "any.name")
        )
    if "items" in node:
        yield from paths_of_secrets(node["items"], definitions, (*path, 0))


def configured(path: Sequence[str | int], value: str) -> Any:
    """A configuration that has nothing but this value."""
    if not path:
        return value
    first, *rest = path
    return [configured(rest, value)] if first == 0 else {first: configured(rest, value)}


SCHEMA = json_schema()
SECRETS = sorted(set(paths_of_secrets(SCHEMA, SCHEMA["$defs"])), key=str)
IN_PLAIN_TEXT = (
    "holds a secret in plain text, which would lie in a ConfigMap. Write ${env:NAME} or ${file:/path} in its place"
)


def written(path: Sequence[str | int]) -> str:
    """A path as messages have it."""
    return "".join(f"[{part}]" if part == 0 else f".{part}" for part in path).removeprefix(".")


@pytest.fixture(scope="module")
def unchecked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the chart without its schema, by which most of what is rendered here lacks other keys."""
    return tmp_path_factory.mktemp("charts") / "toolgate"


def refusal(config: Values, unchecked: Path) -> str:
    """Why the chart refuses a configuration beside the least one; nothing if it does not."""
    try:
        render_unchecked(values("minimal", {"config": config}), unchecked)
    except helm_python.HelmError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize("path", SECRETS, ids=str)
def test_every_secret_of_the_configuration_must_come_from_elsewhere(path: Sequence[str | int], unchecked: Path) -> None:
    for in_clear in ("hunter2", "$${env:A}"):
        assert f"config.{written(path)} {IN_PLAIN_TEXT}" in refusal(configured(path, in_clear), unchecked)
    for elsewhere in ("${env:A}", "Token ${file:/run/secrets/a}"):
        assert refusal(configured(path, elsewhere), unchecked) == ""


URLS = [
    ("redis://localhost:6379/0", False),
    ("rediss://user@redis.example.com", False),
    ("rediss://:${env:PASSWORD}@redis.example.com", False),
    ("${env:REDIS_URL}", False),
    ("rediss://:hunter2@redis.example.com", True),
    ("redis+sentinel://${env:USER}:hunter2@one,two/service", True),
    ("https://one.example/api.json?v=3&api_key=hunter2", True),
    ("https://one.example/api.json?v=3&api_key=${env:KEY}", False),
    ("https://one.example/api.json?key=of-${env:KEY}&token=hunter2", True),
    ("https://one.example/api.json?keys=all", False),
    ("https://${env:HOST}/api.json?api_key=hunter2", True),
]


@pytest.mark.parametrize(("url", "is_refused"), URLS)
def test_of_a_url_the_password_and_the_key_must_come_from_elsewhere(
    url: str, *, is_refused: bool, unchecked: Path
) -> None:
    backend = {"protocol": "openapi", "url": "https://one.example", "document": url}
    for config, path in (({"state": {"url": url}}, "state.url"), ({"backends": {"b": backend}}, "backends.b.document")):
        assert (f"config.{path} {IN_PLAIN_TEXT}" in refusal(config, unchecked)) is is_refused


def test_the_chart_knows_no_secret_that_the_configuration_has_not() -> None:
    text = (CHART / "templates/_secrets.tpl").read_text()
    listed = yaml.safe_load(text.partition('"toolgate.secretPaths" -}}')[2].partition("{{-")[0])
    assert [each for each in listed if not any(re.fullmatch(each, written(path)) for path in SECRETS)] == []
    assert KEY_IN_QUERY.pattern.partition("=(?P<value>")[0] in text


def test_replicas_with_a_state_url_and_keys_are_not_refused() -> None:
    assert render(values("minimal", {"replicaCount": 2, "config": {"state": {**URL, **KEYS}}}))
