"""Checks of how a client treats and reports failures."""

from __future__ import annotations

from toolgate_conformance.clients.registry import MUST, SHOULD, Registry
from toolgate_conformance.clients.scenarios import WRONG_PARAMETER
from toolgate_conformance.clients.seen import Seen
from toolgate_conformance.clients.stage import SAYING

VALIDATION_PAGE = "Call Tool, ValidationErrorResponse"

check = Registry()


@check(
    40,
    MUST,
    "A result with `success` false is a failure",
    "failed",
    page="Call Tool, ToolError",
    remedy="Decide by `success`: the status is 200 even if the tool failed.",
)
def failure_is_failure(failed: Seen) -> None:
    failed.must_fail("a result with success false")


@check(
    41,
    MUST,
    "A refused call is a failure",
    "refused",
    "unauthorized",
    page="Call Tool, ServerErrorResponse",
    remedy="Check the status: 400 and 401 carry no result.",
)
def refusal_is_failure(refused: Seen, unauthorized: Seen) -> None:
    refused.must_fail("status 400")
    unauthorized.must_fail("status 401")


@check(
    42,
    MUST,
    "Input that fails validation is a failure",
    "invalid",
    page=VALIDATION_PAGE,
    remedy="Check the status: 422 carries no result.",
)
def invalid_is_failure(invalid: Seen) -> None:
    invalid.must_fail("status 422")


@check(
    46,
    SHOULD,
    "The message of a failure is shown",
    "failed",
    "refused",
    page="Call Tool, ToolError",
    remedy="Print `message`: it is meant for people and models.",
)
def shows_message(failed: Seen, refused: Seen) -> None:
    for seen in (failed, refused):
        seen.must(SAYING in seen.output, f"The message {SAYING!r} in the output.")


@check(
    47,
    SHOULD,
    "Invalid parameters are shown",
    "invalid",
    page=VALIDATION_PAGE,
    remedy="Print `parameter_errors`: models correct their input by them.",
)
def shows_parameter_errors(invalid: Seen) -> None:
    fits = WRONG_PARAMETER in invalid.output and "count" in invalid.output
    invalid.must(fits, f"The parameter count and {WRONG_PARAMETER!r} in the output.")
