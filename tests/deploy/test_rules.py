"""Alerts, dashboard and the queries of the handbook: Prometheus takes them, and they ask for what there is."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.metrics.families import FAMILIES
from tests.deploy import promql
from tests.deploy.tools import output, program
from tests.support.markdown import PAGES, blocks

FROM_SCRAPING = {"job", "namespace", "instance"}  # labels that Prometheus itself adds
OF_HISTOGRAMS = ("_bucket", "_sum", "_count")
EXPRESSIONS = [*(rule["expr"] for rule in promql.alerts()), *promql.shown()]
QUERIES = [block.text for page in PAGES for block in blocks(page.read_text("utf-8"), "promql")]
OF_PROMETHEUS = {"up"}  # it makes these itself
CASES = Path(__file__).with_name("alerts_test.yaml")


def test_prometheus_takes_the_rules() -> None:
    assert "SUCCESS" in output(program("promtool", "prometheus"), "check", "rules", str(promql.ALERTS))


def test_every_alert_is_raised_by_its_cause_and_by_nothing_else(tmp_path: Path) -> None:
    promtool = program("promtool", "prometheus")
    for file in (promql.ALERTS, CASES):
        shutil.copy(file, tmp_path)
    assert "SUCCESS" in output(promtool, "test", "rules", str(tmp_path / CASES.name))


def test_every_alert_has_a_case_a_severity_and_words() -> None:
    cases = CASES.read_text()
    for rule in promql.alerts():
        assert rule["alert"] in cases
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{rule['alert'].lower()}"


def _family(metric: str) -> str:
    """The metric that a series of a histogram belongs to."""
    for suffix in OF_HISTOGRAMS:
        if metric.removesuffix(suffix) in FAMILIES:
            return metric.removesuffix(suffix)
    return metric


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *QUERIES])
def test_every_expression_asks_for_metrics_and_labels_that_there_are(expression: str) -> None:
    found = list(promql.selectors(expression))
    assert found
    known = set(FROM_SCRAPING)
    for metric, labels in found:
        if metric in OF_PROMETHEUS:
            continue
        family = FAMILIES[_family(metric)]
        own = {*family.labels, *(["le"] if family.kind == "histogram" else [])}
        known |= own
        assert labels <= own | FROM_SCRAPING
    assert promql.grouped_by(expression) <= known


def test_alerts_and_dashboard_look_at_every_metric() -> None:
    assert {_family(metric) for text in EXPRESSIONS for metric, _ in promql.selectors(text)} == set(FAMILIES)


def test_every_panel_has_its_own_place_unit_source_and_words() -> None:
    panels = promql.panels()
    assert max(Counter(panel["id"] for panel in panels).values()) == 1
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations(panels, 2):
        assert not _overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


def test_the_cases_name_no_alert_that_is_gone() -> None:
    named = {
        test["alertname"]
        for case in yaml.safe_load(CASES.read_text())["tests"]
        for test in case.get("alert_rule_test", ())
    }
    assert named <= {rule["alert"] for rule in promql.alerts()}
