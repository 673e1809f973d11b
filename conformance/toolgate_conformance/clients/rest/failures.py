"""Checks of how a client treats and reports failures."""

from __future__ import annotations

from toolgate_conformance.clients.rest.observation import RestObservation
from toolgate_conformance.clients.rest.scenarios import WRONG_PARAMETER
from toolgate_conformance.clients.rest.stage import SAYING
from toolgate_conformance.registry import MUST, SHOULD, Registry

VALIDATION_PAGE = "Call Tool, ValidationErrorResponse"

check: Registry[RestObservation] = Registry()


@check(40, MUST, "Call Tool, ToolError")
def failure_is_failure(failed: RestObservation) -> None:
    """A result with `success` false is a failure.

    Fix: Decide by `success`: the status is 200 even if the tool failed.
    """
    failed.must_fail("a result with success false")


@check(41, MUST, "Call Tool, ServerErrorResponse")
def refusal_is_failure(refused: RestObservation, unauthorized: RestObservation) -> None:
    """A refused call is a failure.

    Fix: Check the status: 400 and 401 carry no result.
    """
    refused.must_fail("status 400")
    unauthorized.must_fail("status 401")


@check(42, MUST, VALIDATION_PAGE)
def invalid_is_failure(invalid: RestObservation) -> None:
    """Input that fails validation is a failure.

    Fix: Check the status: 422 carries no result.
    """
    invalid.must_fail("status 422")


@check(46, SHOULD, "Call Tool, ToolError")
def shows_message(failed: RestObservation, refused: RestObservation) -> None:
    """The message of a failure is shown.

    Fix: Print `message`: it is meant for people and models.
    """
    for seen in (failed, refused):
        seen.must(SAYING in seen.output, f"The message {SAYING!r} in the output.")


@check(47, SHOULD, VALIDATION_PAGE)
def shows_parameter_errors(invalid: RestObservation) -> None:
    """Invalid parameters are shown.

    Fix: Print `parameter_errors`: models correct their input by them.
    """
    fits = WRONG_PARAMETER in invalid.output and "count" in invalid.output
    invalid.must(fits, f"The parameter count and {WRONG_PARAMETER!r} in the output.")
