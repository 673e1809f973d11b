"""The distribution: what it needs, and that it stands without the gateway."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import gateway
import toolgate_conformance

ROOT = Path(__file__).parents[2]
PACKAGE = Path(toolgate_conformance.__file__).parent
IMPORT_ALL = """
import pkgutil, sys, toolgate_conformance as kit
for module in pkgutil.walk_packages(kit.__path__, "toolgate_conformance."):
    __import__(module.name)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"gateway", "tests"}))
"""


def test_nothing_of_it_names_the_gateway() -> None:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [it.name for it in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] in ("gateway", "tests") for name in names), file


def test_all_of_it_is_imported_without_the_gateway() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_it_takes_the_versions_of_its_dependencies_that_the_gateway_takes() -> None:
    """Which is tried on the lowest of them."""
    kit, whole = (
        tomllib.loads((ROOT / name).read_text("utf-8"))["project"]["dependencies"]
        for name in ("conformance/pyproject.toml", "pyproject.toml")
    )
    assert set(kit) <= set(whole)


def test_it_has_the_version_of_the_gateway() -> None:
    assert toolgate_conformance.__version__ == gateway.__version__
