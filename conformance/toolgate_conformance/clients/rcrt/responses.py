"""Checks of which breadcrumb a client takes for the response to its request, and how it reads it."""

from __future__ import annotations

from toolgate_conformance.clients.rcrt.observation import RcrtObservation
from toolgate_conformance.clients.rcrt.scenarios import FAILURE, ITEMS, OUTPUT, RESULT
from toolgate_conformance.registry import GOOD, MUST, SHOULD, Registry
from toolgate_conformance.servers.rcrt.documents import RUNNER, STANDARD, TOOLS
from toolgate_conformance.servers.rcrt.messages import RESPONSE

FORM = f"{STANDARD}: {RESPONSE}"
DISPATCH = f"{RUNNER}: dispatchEventToTool"

check: Registry[RcrtObservation] = Registry()


@check(50, MUST, FORM)
def output_is_returned(plain: RcrtObservation) -> None:
    """The output of a response is returned.

    Fix: Print context.output as JSON, and exit with 0. New breadcrumbs are events of type breadcrumb.updated.
    """
    plain.must_return()


@check(51, MUST, FORM)
def only_responses(other_schemas: RcrtObservation) -> None:
    """Only a `tool.response.v1` completes a call.

    Fix: Compare schema_name: the request itself and breadcrumbs of agents may name the same id.
    """
    other_schemas.must_return_only()


@check(52, MUST, FORM)
def foreign_response(foreign: RcrtObservation) -> None:
    """A response to another request is discarded.

    Fix: Compare context.request_id with your requestId: the stream carries all responses of the owner.
    """
    foreign.must_return_only()


@check(53, MUST, DISPATCH)
def first_response_wins(twice: RcrtObservation) -> None:
    """A call has one result: the first response.

    Fix: Discard repeated events, and further responses: each runner on a workspace runs every request.
    """
    twice.must_return_only()
    twice.must(twice.stdout.count(next(iter(OUTPUT))) == 1, "One output.")


@check(54, MUST, FORM)
def error_is_failure(failed: RcrtObservation) -> None:
    """A response with the status error fails the call.

    Fix: Exit with another code than 0 if context.status is error.
    """
    failed.asked()
    failed.must_fail("a response of failure")


@check(55, SHOULD, FORM)
def failure_is_shown(failed: RcrtObservation) -> None:
    """The message of a failure is shown.

    Fix: Print context.error, or the line after `Tool Error:` in it: models correct their calls by it.
    """
    failed.must(FAILURE in failed.output, f"The text {FAILURE!r} in the output.")


@check(56, SHOULD, DISPATCH)
def untagged_response(unknown_tool: RcrtObservation) -> None:
    """A response is recognized without the tag of its request.

    Fix: Compare context.request_id first: the response to a request for an unknown tool has only the tag error.
    """
    unknown_tool.asked()
    unknown_tool.must(RESULT.split()[0] not in unknown_tool.output, "No output of the second response.")
    unknown_tool.must_fail("a response that the tool is not known")


@check(57, SHOULD, TOOLS)
def any_output(items: RcrtObservation) -> None:
    """An output that is no object is returned.

    Fix: Print any JSON: the runner does not compare outputs with the schema of the tool.
    """
    items.must_print(ITEMS)


@check(58, GOOD, "RCRT, packages/tools/README.md")
def older_names(older: RcrtObservation) -> None:
    """The older names `requestId` and `result` are understood.

    Fix: Read request_id or requestId, output or result; without a status, an error makes it a failure.
    """
    older.must_hear()
