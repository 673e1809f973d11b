"""Which operations become tools."""

from __future__ import annotations

import pytest

from gateway.protocols.openapi.document.curation import (
    Match,
    Terms,
    ToolTerms,
    idle_tools,
    reason_left_out,
    tool_terms,
    unknown_tools,
)
from gateway.protocols.openapi.document.operations import Operation
from tests.unit.protocols.openapi.document.test_names import BOUNDS


def terms(**said: object) -> Terms:
    return Terms(bounds=BOUNDS, url="http://x", **said)  # type: ignore[arg-type]


ISSUES = Operation(method="GET", template="/repos/{owner}/issues", prefix="", id="issues/list", tags=("issues", "x"))
CREATE = Operation(method="POST", template="/repos/{owner}/issues", prefix="", id="issues/create", tags=("issues",))
OLD = Operation(method="GET", template="/old/[1]", prefix="", is_deprecated=True)
HEAD = Operation(method="HEAD", template="/repos", prefix="")
HIDDEN = Operation(method="GET", template="/hidden", prefix="", is_offered=False)
ALL = (ISSUES, CREATE, OLD, HEAD, HIDDEN)

CHOICES: list[tuple[Terms, set[str]]] = [
    (terms(), {"issues/list"}),
    (terms(methods=("ALL",)), {"issues/list", "issues/create"}),
    (terms(methods=("ALL", "HEAD")), {"issues/list", "issues/create", "HEAD /repos"}),
    (terms(include_deprecated=True), {"issues/list", "GET /old/[1]"}),
    (terms(include=(Match(tag="issue"),)), set()),
    (terms(include=(Match(tag="issue"), Match(tag="x"))), {"issues/list"}),
    (terms(methods=("ALL",), include=(Match(operation="issues/*"),)), {"issues/list", "issues/create"}),
    (terms(methods=("ALL",), include=(Match(operation="issues/*", method="POST"),)), {"issues/create"}),
    (terms(methods=("ALL",), include=(Match(operation="*"),), exclude=(Match(method="POST"),)), {"issues/list"}),
    (terms(include=(Match(path="/repos/{owner}/*"),)), {"issues/list"}),
    (terms(include=(Match(path="/old/[1]"), Match(path="/old/?")), include_deprecated=True), {"GET /old/[1]"}),
    (terms(exclude=(Match(deprecated=False),), include_deprecated=True), {"GET /old/[1]"}),
]


@pytest.mark.parametrize(("said", "names"), CHOICES)
def test_openapi_57_only_what_reads_becomes_a_tool_unless_the_operator_says_more(said: Terms, names: set[str]) -> None:
    assert {it.id or it.place for it in ALL if reason_left_out(it, said) is None} == names
    reasons = {reason_left_out(it, said) for it in ALL} - {None}
    assert all(reason and reason.endswith(".") for reason in reasons)


def test_what_is_said_by_place_wins_over_what_is_said_by_id() -> None:
    by_place, by_id = ToolTerms(name="place"), ToolTerms(name="id")
    tools = {"issues/list": by_id, "GET /repos/{owner}/issues": by_place, "issues/create": by_id}
    assert [tool_terms(it, terms(tools=tools)).name for it in (ISSUES, CREATE, OLD)] == ["place", "id", None]


def test_openapi_16_what_is_said_of_no_operation_or_to_no_avail_is_found() -> None:
    said = terms(tools={"issues/lst": ToolTerms(), "issues/create": ToolTerms(), "issues/list": ToolTerms(name="a")})
    twin = Operation(method="GET", template="/twin", prefix="", id="issues/list")
    assert list(unknown_tools((*ALL, twin), said)) == [
        "tools names 'issues/lst', which is no operation of the document; did you mean 'issues/list'?"
    ]
    assert list(idle_tools((*ALL, twin), said)) == [
        "tools gives 'issues/list' a name, but 2 operations have this operationId; use method and path",
        "tools names 'issues/create', which is left out: operations.methods leaves out POST.",
    ]
    assert [*unknown_tools(ALL, terms()), *idle_tools(ALL, terms())] == []
