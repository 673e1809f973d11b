"""Checks of which breadcrumb a client takes for the response to its request, and how it reads it."""

from __future__ import annotations

from toolgate_conformance.clients.rcrt.scenarios import FAILURE, ITEMS, OUTPUT, RESULT
from toolgate_conformance.clients.rcrt.seen import Seen
from toolgate_conformance.clients.scenario_checks import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.rcrt.messages import RESPONSE
from toolgate_conformance.rcrt.registry import RUNNER, STANDARD, TOOLS

FORM = f"{STANDARD}: {RESPONSE}"
DISPATCH = f"{RUNNER}: dispatchEventToTool"

check = Registry("RCRTC")


@check(
    50,
    MUST,
    "The output of a response is returned",
    "plain",
    section=FORM,
    remedy="Print context.output as JSON, and exit with 0. New breadcrumbs are events of type breadcrumb.updated.",
)
def output_is_returned(plain: Seen) -> None:
    plain.must_return()


@check(
    51,
    MUST,
    f"Only a `{RESPONSE}` completes a call",
    "other-schemas",
    section=FORM,
    remedy="Compare schema_name: the request itself and breadcrumbs of agents may name the same id.",
)
def only_responses(others: Seen) -> None:
    others.must_return_only()


@check(
    52,
    MUST,
    "A response to another request is discarded",
    "foreign",
    section=FORM,
    remedy="Compare context.request_id with your requestId: the stream carries all responses of the owner.",
)
def foreign_response(foreign: Seen) -> None:
    foreign.must_return_only()


@check(
    53,
    MUST,
    "A call has one result: the first response",
    "twice",
    section=DISPATCH,
    remedy="Discard repeated events, and further responses: each runner on a workspace runs every request.",
)
def first_response_wins(twice: Seen) -> None:
    twice.must_return_only()
    twice.must(twice.stdout.count(next(iter(OUTPUT))) == 1, "One output.")


@check(
    54,
    MUST,
    "A response with the status error fails the call",
    "failed",
    section=FORM,
    remedy="Exit with another code than 0 if context.status is error.",
)
def error_is_failure(failed: Seen) -> None:
    failed.asked()
    failed.must_fail()


@check(
    55,
    SHOULD,
    "The message of a failure is shown",
    "failed",
    section=FORM,
    remedy="Print context.error, or the line after `Tool Error:` in it: models correct their calls by it.",
)
def failure_is_shown(failed: Seen) -> None:
    failed.must(FAILURE in failed.output, f"The text {FAILURE!r} in the output.")


@check(
    56,
    SHOULD,
    "A response is recognized without the tag of its request",
    "unknown-tool",
    section=DISPATCH,
    remedy="Compare context.request_id first: the response to a request for an unknown tool has only the tag error.",
)
def untagged_response(unknown: Seen) -> None:
    unknown.asked()
    unknown.must(RESULT.split()[0] not in unknown.output, "No output of the second response.")
    unknown.must_fail()


@check(
    57,
    SHOULD,
    "An output that is no object is returned",
    "items",
    section=TOOLS,
    remedy="Print any JSON: the runner does not compare outputs with the schema of the tool.",
)
def any_output(items: Seen) -> None:
    items.must_return(ITEMS)


@check(
    58,
    GOOD,
    "The older names `requestId` and `result` are understood",
    "older",
    section="RCRT, packages/tools/README.md",
    remedy="Read request_id or requestId, output or result; without a status, an error makes it a failure.",
)
def older_names(older: Seen) -> None:
    older.must_hear()
