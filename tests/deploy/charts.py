"""The chart, rendered by real Helm, and its manifests as plain dictionaries."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, cast

import helm_python
import yaml

from tests.deploy.tools import CHECKOUT

CHART = CHECKOUT / "helm/toolgate"
CONFIGURING = ("minimal", "production", "tls")  # files with values in ci/ from which the chart makes gateway.yaml
NAMES = (*CONFIGURING, "existing")  # of all files with values in ci/
RELEASE, NAMESPACE = "prod", "tools"

Values = dict[str, Any]
Manifest = dict[str, Any]


def values(name: str, more: Values | None = None) -> Values:
    """The values of one of the files, changed as `more` says."""
    return merged(yaml.safe_load((CHART / f"ci/{name}-values.yaml").read_text()), more or {})


def merged(under: Values, over: Values) -> Values:
    """Both, as Helm puts values together: maps are merged, all else is replaced."""
    result = copy.deepcopy(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def render(given: Values) -> list[Manifest]:
    """All manifests. Raises helm_python.HelmError."""
    return [
        manifest
        for path, text in _render(given).items()
        if path.endswith(".yaml")
        for manifest in yaml.safe_load_all(text)
        if manifest is not None
    ]


def notes(given: Values) -> str:
    """What Helm says after an installation."""
    return next(text for path, text in _render(given).items() if path.endswith("NOTES.txt"))


def render_unchecked(given: Values, folder: Path) -> None:
    """Renders what the schema would refuse, from a copy of the chart without one. Raises helm_python.HelmError."""
    if not folder.exists():
        shutil.copytree(CHART, folder, ignore=shutil.ignore_patterns("values.schema.json"))
    _render(given, folder)


def _render(given: Values, folder: Path = CHART) -> dict[str, str]:
    return _rendered(json.dumps(given), folder)


@cache
def _rendered(given: str, folder: Path) -> dict[str, str]:
    with helm_python.Chart.load(folder) as chart:
        return cast(dict[str, str], chart.render(json.loads(given), name=RELEASE, namespace=NAMESPACE))


def all_of(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def one(manifests: Iterable[Manifest], kind: str, suffix: str = "toolgate") -> Manifest:
    """The only manifest of a kind whose name ends so."""
    found = [manifest for manifest in all_of(manifests, kind) if manifest["metadata"]["name"].endswith(suffix)]
    assert len(found) == 1, f"{len(found)} of kind {kind}"
    return found[0]


def pod(manifests: Iterable[Manifest]) -> Manifest:
    """The template of the pods."""
    (deployment,) = all_of(manifests, "Deployment")
    template: Manifest = deployment["spec"]["template"]
    return template


def container(manifests: Iterable[Manifest]) -> Manifest:
    """The container of the gateway in a pod."""
    (ours,) = (each for each in pod(manifests)["spec"]["containers"] if each["name"] == "toolgate")
    return cast(Manifest, ours)


def configuration(manifests: Iterable[Manifest]) -> str:
    """The text of gateway.yaml."""
    (text,) = (
        maps["data"]["gateway.yaml"] for maps in all_of(manifests, "ConfigMap") if "gateway.yaml" in maps["data"]
    )
    return cast(str, text)
