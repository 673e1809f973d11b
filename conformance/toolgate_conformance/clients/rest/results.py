"""Checks of how a client reads lists and results."""

from __future__ import annotations

from toolgate_conformance.clients.rest.observation import RestObservation
from toolgate_conformance.registry import MUST, Registry

RESPONSE_PAGE = "Call Tool, CallToolResponse"

check: Registry[RestObservation] = Registry()


@check(30, MUST, RESPONSE_PAGE)
def value_arrives(plain: RestObservation) -> None:
    """The value of a result is returned.

    Fix: Print `value` as JSON, and exit with 0. In the RFC, it is in `output`.
    """
    plain.must_print({"said": "hello", "times": 3})


@check(31, MUST, RESPONSE_PAGE)
def null_succeeds(null: RestObservation) -> None:
    """A result with the value null is a success.

    Fix: Decide by `success`, not by the value.
    """
    null.must(null.exit_code == 0, "Exit code 0 for a result with success true and value null.")
    printed = null.stdout.strip().rpartition("\n")[2]
    null.must(printed in ("", "null"), f"null on the standard output, not {printed[:100]!r}.")


@check(32, MUST, "CallToolResponse, ToolDefinition")
def foreign_members(foreign: RestObservation) -> None:
    """Unknown members are ignored.

    Fix: Ignore them: later versions of the specification add members.
    """
    foreign.must(foreign.exit_code == 0, "Exit code 0, as without these members.")


@check(33, MUST, "Call Tool")
def waits(slow: RestObservation) -> None:
    """A client waits for a slow response, and does not retry the call meanwhile.

    Fix: Wait for at least some minutes: tools take time.
    """
    slow.must(len(slow.calls) == 1, f"One call, not {len(slow.calls)}.")
    slow.must(slow.exit_code == 0, "Exit code 0 after a response that took two seconds.")


@check(34, MUST, "List Tools")
def other_tools(many: RestObservation) -> None:
    """Other tools in the list are tolerated.

    Fix: Skip tools that you cannot use, and continue with the rest.
    """
    many.must(many.exit_code == 0, "Exit code 0: the tool is in the list.")


@check(35, MUST, "List Tools")
def empty_list(empty: RestObservation) -> None:
    """A tool that is not listed is a failure.

    Fix: Report that there is no such tool, and exit with a non-zero code.
    """
    empty.must_fail("an empty list")


@check(36, MUST, "Call Tool")
def garbled_answer(garbled: RestObservation) -> None:
    """A response that is not JSON is a failure.

    Fix: Parse the body as JSON, and fail if that fails.
    """
    garbled.must_fail("an HTML page in place of a result")


@check(37, MUST, "List Tools")
def refused_list(unlisted: RestObservation) -> None:
    """A list that is refused is a failure.

    Fix: Check the status of the list, and exit with a non-zero code unless it is 200.
    """
    unlisted.must_fail("status 403 for the list")
