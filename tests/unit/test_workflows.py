"""What a public repository reads of this one: workflows, forms for issues, and the pages that lead there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.markdown import ROOT, anchors, links

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PAGES = (ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")
TARGETS = {
    target
    for line in re.findall(r"^([\w .-]+):(?!=)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for target in line.split()
}
MAKE = re.compile(r"\bmake ([a-z][\w-]*)")
PIN = re.compile(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
MAY_WRITE = {  # who may change anything, and what
    "release.attest": {"id-token", "attestations"},
    "release.index": {"id-token"},
    "release.registry": {"id-token", "attestations", "packages"},
    "release.page": {"contents"},
}

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def _read(path: Path) -> dict[Any, Any]:
    read = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(read, dict)
    return read


def _jobs(path: Path) -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = _read(path)["jobs"]
    return jobs


def _steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in _jobs(path).values() for step in job["steps"]]


def test_there_is_one_for_changes_and_one_for_releases() -> None:
    on = {path.stem: _read(path)[True] for path in WORKFLOWS}  # YAML 1.1 takes the word `on` for true
    assert on == {
        "ci": {"push": {"branches": ["main"]}, "pull_request": None},
        "release": {"push": {"tags": ["v*"]}},
    }


@each_workflow
def test_a_job_may_do_only_what_it_must(path: Path) -> None:
    assert _read(path)["permissions"] == {}
    for name, job in _jobs(path).items():
        granted = job["permissions"]
        assert {what for what, how in granted.items() if how == "write"} == MAY_WRITE.get(f"{path.stem}.{name}", set())
        assert {*granted.values()} <= {"read", "write"}
        assert 0 < job["timeout-minutes"] <= 120
        assert not {*([job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", ()))} - {*_jobs(path)}


@each_workflow
def test_no_job_that_builds_may_write_and_no_job_that_may_write_builds(path: Path) -> None:
    for job in _jobs(path).values():
        uses = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
        assert ("actions/checkout" in uses) != ("write" in job["permissions"].values())


@each_workflow
def test_nothing_that_others_write_gets_into_a_script_and_nothing_secret_is_printed(path: Path) -> None:
    assert "secrets." not in path.read_text("utf-8")
    for step in _steps(path):
        script = step.get("run", "")
        assert "${{" not in script
        assert not re.search(r"set -\w*x|\benv\s*(?:$|\|)", script)
        for said in re.findall(r".*\$(?:TOKEN|GH_TOKEN)\b.*", script):
            assert re.search(r"^printf '%s' \"\$TOKEN\" \| .* --password-stdin ", said)
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


@each_workflow
def test_an_action_is_pinned_or_said_to_be_in_need_of_it(path: Path) -> None:
    used = re.findall(r"uses: (.*)$", path.read_text("utf-8"), re.MULTILINE)
    assert len(used) == sum("uses" in step for step in _steps(path))
    assert [line for line in used if not PIN.fullmatch(line)] == []


def test_a_release_is_built_completely_on_the_real_base_and_for_its_tag() -> None:
    (line,) = [step["run"] for step in _steps(GITHUB / "workflows/release.yml") if "make" in step.get("run", "")]
    assert {"--complete", "--base=registry", "--tag=$GITHUB_REF_NAME"} == {*re.findall(r"--[\w=$-]+", line)}


@pytest.mark.parametrize("path", [*WORKFLOWS, *PAGES, GITHUB / "pull_request_template.md"])
def test_every_target_that_is_named_exists(path: Path) -> None:
    assert {*MAKE.findall(path.read_text("utf-8"))} <= TARGETS


def test_every_target_that_the_ci_runs_exists() -> None:
    run = {*re.findall(r"^\s*run ([a-z-]+)$", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)}
    assert {"test", "test-deploy", "release"} <= run <= TARGETS


@each_workflow
def test_every_file_of_ours_that_is_run_can_be_run(path: Path) -> None:
    for step in _steps(path):
        for name in re.findall(r"\.ci/[\w-]+", step.get("run", "")):
            assert (ROOT / name).stat().st_mode & 0o111


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_these_pages_leads_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    assert links(text)
    for link in links(text):
        path, _, fragment = link.partition("#")
        assert (ROOT / path).exists(), link
        assert not fragment or fragment in anchors(ROOT / path), link
    for name in re.findall(r"`((?:gateway|tests|config|helm|docs|\.ci|\.github)/[\w./-]*)`", text):
        assert (ROOT / name).exists() or name.endswith("/X"), name  # X: a protocol
    assert "@" not in text  # no address of mail is known
