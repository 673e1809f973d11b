"""A release has one version and one list of what it was tested with, wherever these are written."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name

from gateway import __version__
from release.notes import section
from release.tools import FailedError
from tests.interop.programs import interpreter
from tests.pins import CONSTRAINTS, ROOT, differing, installed_for, pins, required, requirements
from tests.support.markdown import links

OTHERS = sorted(file.stem for file in (ROOT / "tests/interop/requirements").glob("*.txt"))
NOT_PINNED = {"pip", "setuptools"}  # they come with Python


def test_the_version_is_that_of_the_newest_entry_of_the_changelog() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


def test_the_version_is_that_of_the_image_and_of_the_one_that_the_chart_installs() -> None:
    (label,) = re.findall(r'image\.version="([^"]+)"', (ROOT / "Dockerfile").read_text("utf-8"))
    chart = yaml.safe_load((ROOT / "helm/toolgate/Chart.yaml").read_text("utf-8"))
    example = yaml.safe_load((ROOT / "helm/toolgate/ci/production-values.yaml").read_text("utf-8"))
    assert (label, chart["version"], chart["appVersion"], example["image"]["tag"]) == (__version__,) * 4


@pytest.mark.parametrize("page", ["README.md", "docs/comparison.md"])
def test_pages_name_the_version(page: str) -> None:
    assert re.search(rf"\b{re.escape(__version__)}, not released", (ROOT / page).read_text("utf-8"))


def test_the_notes_of_the_version_are_its_section_of_the_changelog() -> None:
    text = section((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__)
    assert text.startswith("### Callers")
    assert "\n## " not in text


@pytest.mark.parametrize(
    ("changelog", "found"),
    [
        ("# Changelog\n\n## 2.0.0 (unreleased)\n\n- b\n\n## 1.0.0\n\n- a\n", "- a\n"),
        ("## 1.0.0 (2026-11-24)\n\n- a\n### More\n- c\n## 0.9.0\n- b", "- a\n### More\n- c\n"),
        ("## 1.0.0\n\n## 0.9.0\n- b", None),
        ("## 1.0.01\n- b", None),
        ("", None),
    ],
)
def test_a_version_without_a_section_has_no_notes(changelog: str, found: str | None) -> None:
    if found is not None:
        assert section(changelog, "1.0.0") == found
        return
    with pytest.raises(FailedError, match=r"says nothing about version 1\.0\.0"):
        section(changelog, "1.0.0")


def test_no_link_of_the_readme_is_broken_on_the_page_of_the_package() -> None:
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["metadata"]["hooks"]
    (change,) = hooks["fancy-pypi-readme"]["substitutions"]
    text = (ROOT / "README.md").read_text("utf-8")
    shown = re.sub(change["pattern"], change["replacement"], text)
    assert "docs/README.md" in links(text)
    assert links(shown)
    assert all(link.startswith("https://") for link in links(shown))


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    lines = requirements(CONSTRAINTS)
    assert len(pins()) == len(lines)
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line), line


def test_these_tests_run_on_the_constrained_versions() -> None:
    assert differing(installed_for(required("dev"))) == {}


@pytest.mark.parametrize("name", OTHERS)
def test_the_programs_of_others_run_on_the_constrained_versions(name: str) -> None:
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    folder = Path(interpreter(name)).parents[1] / library
    found: dict[str, str] = {canonicalize_name(one.name): one.version for one in distributions(path=[str(folder)])}
    assert canonicalize_name(name) in found
    assert differing({key: version for key, version in found.items() if key not in NOT_PINNED}) == {}


@pytest.mark.parametrize("folder", ["tests/console", "tests/interop/mcp"])
def test_packages_of_npm_are_exact_versions_with_digests_and_come_from_no_certain_registry(folder: str) -> None:
    asked = json.loads((ROOT / folder / "package.json").read_text("utf-8"))["dependencies"]
    assert all(re.fullmatch(r"[0-9]+(\.[0-9]+){2}(-[a-z0-9.]+)?", version) for version in asked.values())
    locked = json.loads((ROOT / folder / "package-lock.json").read_text("utf-8"))["packages"]
    assert locked.pop("")["dependencies"] == asked
    assert all("integrity" in package and "resolved" not in package for package in locked.values())
