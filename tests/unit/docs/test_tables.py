"""The tables of the handbook say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gateway.auth.refusals import Reason
from gateway.core.errors import ErrorCode, FailureCode, GatewayError, ServerCode
from gateway.core.jsontext import decode
from gateway.core.model import Json, ToolFailure, ToolResult
from gateway.http.accesslog import AccessLine
from gateway.http.edge import STRICT
from gateway.metrics.families import FAMILIES
from gateway.metrics.recording import CALLBACK_OUTCOMES, OUTCOMES
from gateway.net.server.refusals import ServerRefusal
from gateway.protocols.common.fields import STATUSES
from gateway.protocols.mcp.settings import McpSettings
from gateway.protocols.otc.surface import DIALECTS
from gateway.telemetry import names as spans
from tests.bench import picture
from tests.support.markdown import DOCS, PAGES, ROOT, blocks, headings, rows

ERRORS = (DOCS / "errors.md").read_text("utf-8")
OPERATING = (DOCS / "operating.md").read_text("utf-8")
RUNBOOKS = (DOCS / "runbooks.md").read_text("utf-8")
ALERTS = yaml.safe_load((ROOT / "helm/toolgate/rules/alerts.yaml").read_text("utf-8"))
TRACING = (DOCS / "tracing.md").read_text("utf-8")
ATTRIBUTES = {
    value for name, value in vars(spans).items() if name.isupper() and isinstance(value, str) and "." in value
}
NAMES = [rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_error_code_is_listed_with_its_status() -> None:
    listed = {words(row[0])[0]: (int(row[1]), int(row[2])) for row in rows(ERRORS, "Refusals")}
    codes = {str(code): STATUSES[code] for code in ErrorCode}
    assert listed == {code: (status, 400 if status in STRICT else status) for code, status in codes.items()}


@pytest.mark.parametrize("row", rows(ERRORS, "The same refusal in every dialect"), ids=lambda row: words(row[0])[0])
def test_bodies_have_the_members_that_are_listed(row: list[str]) -> None:
    dialect = DIALECTS[words(row[0])[0]]
    refusal = dialect.encode_error(GatewayError(ErrorCode.INTERNAL, "why"))
    failure = dialect.encode_result(ToolResult(failure=ToolFailure(message="why")), "id")
    assert words(row[1]) == members(decode(refusal.body))
    body = decode(failure.body)
    for name in words(row[2]):
        found: Json = body
        for part in name.split("."):
            assert part in found
            found = found[part]
    assert {name.split(".")[0] for name in words(row[2])} == set(members(body))


def members(body: Json) -> list[str]:
    assert isinstance(body, dict)
    return list(body)


def test_every_dialect_has_a_row_wherever_dialects_are_listed() -> None:
    assert [words(row[0])[0] for row in rows(ERRORS, "The same refusal in every dialect")] == list(DIALECTS)
    page = (DOCS / "dialects.md").read_text("utf-8")
    assert [words(row[0])[0] for row in rows(page, "Dialects")] == [
        *(f"/{name}" for name in DIALECTS),
        McpSettings().path,
    ]


def test_every_word_of_a_failure_is_listed() -> None:
    assert {words(row[0])[0] for row in rows(ERRORS, "Failures")} == set(FailureCode)
    assert not set(FailureCode) & {*ErrorCode, *ServerCode}


def test_every_word_of_the_listener_is_listed_with_its_statuses() -> None:
    table = rows(ERRORS, "Before a request is one")
    statuses = {words(row[0])[0]: {int(status) for status in row[1].split(", ")} for row in table}
    listed = {status: code for code, those in statuses.items() for status in those}
    assert listed == {refusal.status: refusal.code for refusal in ServerRefusal}
    assert set(statuses) >= set(ServerCode)
    reasons = [(words(row[0])[0], words(row[1])[0]) for row in rows(ERRORS, "Words of the listener")]
    assert reasons == list(dict.fromkeys((refusal.reason, refusal.code) for refusal in ServerRefusal))


def test_every_failure_has_a_word_that_is_listed() -> None:
    """Also one that says no more than how it is counted."""
    for outcome in OUTCOMES:
        if outcome not in ("ok", "other"):
            assert ToolFailure(message="why", outcome=outcome).public_code in {*FailureCode, *ErrorCode}


def test_every_outcome_of_a_call_is_listed() -> None:
    assert {words(row[0])[0] for row in rows(ERRORS, "Outcomes")} == set(OUTCOMES) - {"other"}


def test_every_reason_for_a_refused_credential_is_listed() -> None:
    assert [words(row[0])[0] for row in rows(ERRORS, "Why a credential was refused")] == list(Reason)


def test_every_metric_is_listed_with_its_labels() -> None:
    listed = {words(row[0])[0]: tuple(words(row[1])) for row in rows(OPERATING, "Metrics")}
    assert listed == {name: family.labels for name, family in FAMILIES.items()}


def test_every_attribute_of_a_span_is_listed() -> None:
    listed = [name for row in rows(TRACING, "Attributes") for name in words(row[0])]
    assert sorted(listed) == sorted(ATTRIBUTES)


def test_every_outcome_of_a_callback_is_listed() -> None:
    row = next(row for row in rows(OPERATING, "Metrics") if words(row[0]) == ["toolgate_callbacks_total"])
    assert set(words(row[2])) == set(CALLBACK_OUTCOMES.values())


def test_every_field_of_a_line_in_the_log_is_listed() -> None:
    listed = [name for row in rows(OPERATING, "Logs") for name in words(row[0])]
    line = AccessLine(
        "now", "id", "call", "/call", 200, 0.2, 1, 2, "oxp", "2026-07-28", "key:a", "A.B", "1.0.0", "b", "ok", "why",
        0.1, "203.0.113.1", "mine", "tg-ours", 500, "7", "c", "d", "s", True,
    )  # fmt: skip
    assert {*listed, "level", "logger", "message"} == decode(bytes(line)).keys()
    (block,) = blocks(OPERATING, "json", "line.json")
    example = decode(block.text.encode())
    assert members(example) == [name for name in members(decode(bytes(line))) if name in members(example)]


def test_the_picture_of_performance_shows_the_figures_of_its_page() -> None:
    drawn = picture.draw(picture.groups_of((DOCS / "performance.md").read_text("utf-8")))
    ours = "draw it anew: python -m tests.bench.picture > docs/performance.svg"
    assert (DOCS / "performance.svg").read_text("utf-8") == drawn, ours


def test_every_alert_has_a_runbook_under_its_name_and_leads_to_it() -> None:
    assert headings(RUNBOOKS)[1:] == NAMES
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("name", NAMES)
def test_every_runbook_says_what_it_means_how_to_look_and_what_to_do(name: str) -> None:
    section = RUNBOOKS.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for part in ("**Meaning.** ", "**Look.** ", "**Do.** "):
        assert section.count(f"\n{part}") == 1
    assert blocks(section, "promql")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_metric_of_a_query_exists(page: Path) -> None:
    for block in blocks(page.read_text("utf-8"), "promql"):
        named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\btoolgate_\w+", block.text)}
        assert named <= FAMILIES.keys()
