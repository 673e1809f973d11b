"""Checks of how a client reads lists and results."""

from __future__ import annotations

from toolgate_conformance.clients.registry import MUST, Registry
from toolgate_conformance.clients.seen import Seen

RESPONSE_PAGE = "Call Tool, CallToolResponse"

check = Registry()


@check(
    30,
    MUST,
    "The value of a result is returned",
    "plain",
    page=RESPONSE_PAGE,
    remedy="Print `value` as JSON, and exit with 0. In the RFC, it is in `output`.",
)
def value_arrives(plain: Seen) -> None:
    plain.must_return({"said": "hello", "times": 3})


@check(
    31,
    MUST,
    "A result with the value null is a success",
    "null",
    page=RESPONSE_PAGE,
    remedy="Decide by `success`, not by the value.",
)
def null_succeeds(null: Seen) -> None:
    null.must(null.has_succeeded, "Exit code 0 for a result with success true and value null.")
    printed = null.stdout.strip().rpartition("\n")[2]
    null.must(printed in ("", "null"), f"null on the standard output, not {printed[:100]!r}.")


@check(
    32,
    MUST,
    "Unknown members are ignored",
    "foreign",
    page="CallToolResponse, ToolDefinition",
    remedy="Ignore them: later versions of the specification add members.",
)
def foreign_members(foreign: Seen) -> None:
    foreign.must(foreign.has_succeeded, "Exit code 0, as without these members.")


@check(
    33,
    MUST,
    "A client waits for a slow response, and does not retry the call meanwhile",
    "slow",
    page="Call Tool",
    remedy="Wait for at least some minutes: tools take time.",
)
def waits(slow: Seen) -> None:
    slow.must(len(slow.calls) == 1, f"One call, not {len(slow.calls)}.")
    slow.must(slow.has_succeeded, "Exit code 0 after a response that took two seconds.")


@check(
    34,
    MUST,
    "Other tools in the list are tolerated",
    "many",
    page="List Tools",
    remedy="Skip tools that you cannot use, and continue with the rest.",
)
def other_tools(many: Seen) -> None:
    many.must(many.has_succeeded, "Exit code 0: the tool is in the list.")


@check(
    35,
    MUST,
    "A tool that is not listed is a failure",
    "empty",
    page="List Tools",
    remedy="Report that there is no such tool, and exit with a non-zero code.",
)
def empty_list(empty: Seen) -> None:
    empty.must_fail("an empty list")


@check(
    36,
    MUST,
    "A response that is not JSON is a failure",
    "garbled",
    page="Call Tool",
    remedy="Parse the body as JSON, and fail if that fails.",
)
def garbled_answer(garbled: Seen) -> None:
    garbled.must_fail("an HTML page in place of a result")


@check(
    37,
    MUST,
    "A list that is refused is a failure",
    "unlisted",
    page="List Tools",
    remedy="Check the status of the list, and exit with a non-zero code unless it is 200.",
)
def refused_list(unlisted: Seen) -> None:
    unlisted.must_fail("status 403 for the list")
