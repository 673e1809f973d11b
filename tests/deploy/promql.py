"""Expressions of Prometheus, taken apart by its own grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import yaml

from tests.deploy.charts import CHART

ALERTS = CHART / "rules/alerts.yaml"
DASHBOARD = CHART / "dashboards/toolgate.json"
GROUPS = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
PARTS = ("lhs", "rhs", "expr", "param", "vector_selector")


def alerts() -> list[dict[str, Any]]:
    """All rules."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """All panels of the dashboard that are not mere headings."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def shown() -> list[str]:
    """All expressions of the dashboard, with everything chosen, over ten seconds."""
    written = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [re.sub(r"\$(namespace|job|backend)\b", ".*", text.replace("$__rate_interval", "10s")) for text in written]


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The name of each metric, and the labels it is chosen by. Raises ValueError for what is no expression."""
    yield from _selectors(promql_parser.parse(expression))


def grouped_by(expression: str) -> set[str]:
    """All labels that results are kept apart by."""
    return {label.strip() for labels in GROUPS.findall(expression) for label in labels.split(",")}


def _selectors(node: Any) -> Iterator[tuple[str, set[str]]]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name, {matcher.name for matcher in node.matchers.matchers}
        return
    for part in [getattr(node, name, None) for name in PARTS] + list(getattr(node, "args", ())):
        if part is not None:
            yield from _selectors(part)
