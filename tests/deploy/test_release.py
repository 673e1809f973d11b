"""What a release is made with, and its chart; `make release` tries wheel, sdist, image and bill of materials."""

from __future__ import annotations

import shutil
from pathlib import Path

import helm_python

from release.chart import pack
from tests.deploy import charts
from tests.deploy.tools import CHECKOUT
from tests.pins import differing, installed_for, required, requirements


def test_these_tests_run_on_the_constrained_versions() -> None:
    lines = requirements(Path(__file__).with_name("requirements.txt"))
    assert differing(installed_for([*required("dev"), *lines])) == {}


def test_helm_takes_the_package_of_the_chart_wherever_it_is_packed(tmp_path: Path) -> None:
    there = tmp_path / "there"
    shutil.copytree(CHECKOUT / "helm/toolgate", there / "toolgate", copy_function=shutil.copyfile)  # with other times
    for number, folder in enumerate((CHECKOUT / "helm", there)):
        pack(folder / "toolgate", tmp_path / f"{number}.tgz", 1_700_000_000)
    assert (tmp_path / "0.tgz").read_bytes() == (tmp_path / "1.tgz").read_bytes()
    with helm_python.Chart.load(tmp_path / "0.tgz") as chart:
        assert chart.render(charts.values("minimal"), name="prod", namespace="tools")
