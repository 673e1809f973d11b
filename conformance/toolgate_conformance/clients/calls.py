"""Checks of what a client sends to call a tool."""

from __future__ import annotations

import json
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.clients.registry import GOOD, MUST, SPECIFIED, Registry
from toolgate_conformance.clients.scenarios import CALL_PATHS
from toolgate_conformance.clients.seen import Seen, are_same
from toolgate_conformance.clients.stage import TOOL

MEMBERS = frozenset({"call_id", "trace_id", "tool_id", "input", "context"})  # of a request, openapi.json
VERSION_PAGE = "Call Tool, Tool Version Resolution"

check = Registry()


@check(
    10,
    MUST,
    "A call is a POST to the path for calls, in the format of the protocol",
    "plain",
    page="Call Tool",
    remedy="Send {tool_id, input}; in OTC and enveloped OXP, put it into `request`.",
)
def calls(plain: Seen) -> None:
    request = plain.called()
    paths = CALL_PATHS[:1] if plain.form.name == "lc" else CALL_PATHS
    fits = any(plain.calls[0].path.endswith(path) for path in paths)
    plain.must(fits, f"A request POST {plain.form.call_path}.")
    tool = str(request.get("tool_id")).partition("@")[0]
    plain.must(_is_named(plain, tool), f"`tool_id` {plain.scenario.tool!r}.")


@check(
    11,
    MUST,
    "The content type of a call is application/json",
    "plain",
    page="Call Tool",
    remedy="Send content-type: application/json.",
)
def content_type(plain: Seen) -> None:
    plain.called()
    named = plain.calls[0].content_type
    plain.must(named == "application/json", f"The content type application/json, not {named!r}.")


@check(
    12,
    MUST,
    "The input is sent unchanged",
    "plain",
    page="Call Tool, input",
    remedy="Send the arguments in `input`, and add nothing to them.",
)
def sends_input(plain: Seen) -> None:
    request = plain.called()
    # Section 4.2 of the RFC says `inputs`, section 5.2 and every example `input`.
    sent = request.get("inputs" if plain.form.name == "rfc" and "input" not in request else "input")
    plain.must(are_same(sent, plain.scenario.input), f"`input` {json.dumps(plain.scenario.input)}.")


@check(
    13,
    MUST,
    "A call has only members that the specification defines",
    "plain",
    page="Call Tool, CallToolRequest",
    remedy="Send no other members: the schema of the request allows none.",
    forms=SPECIFIED,
)
def known_members(plain: Seen) -> None:
    known = MEMBERS | ({"inputs"} if plain.form.name == "rfc" else set())
    others = sorted(plain.called().keys() - known)
    plain.must(not others, f"Only members among {', '.join(sorted(MEMBERS))}, not {', '.join(others)}.")


@check(
    14,
    GOOD,
    "A call has an id, which is the one that the client was given",
    "plain",
    page="Call Tool, call_id",
    remedy="Send call_id: it lets a server recognize a retry.",
)
def sends_call_id(plain: Seen) -> None:
    found = plain.called().get("call_id")
    plain.must(isinstance(found, str) and found != "", "A `call_id`.")
    # A client whose command does not mention the id may be one that makes its own.
    plain.must(found == plain.call_id or not plain.takes_call_id, f"`call_id` {plain.call_id!r}, not {found!r}.")


@check(
    15,
    MUST,
    "Different calls have different ids",
    "plain",
    "null",
    page="Call Tool, call_id",
    remedy="Generate an id for each call: a server answers a known id with the earlier result.",
)
def call_ids_differ(plain: Seen, null: Seen) -> None:
    one, other = (seen.called().get("call_id") for seen in (plain, null))
    if one is None or other is None:
        raise SkippedError("The client sends no call_id.")
    null.must(one != other, f"A `call_id` other than {one!r}, which an earlier call had.")


@check(
    16,
    MUST,
    "A call that succeeds is sent once",
    "plain",
    page="Call Tool",
    remedy="Send a call once.",
)
def called_once(plain: Seen) -> None:
    plain.must(len(plain.calls) == 1, f"One call, not {len(plain.calls)}.")


@check(
    17,
    MUST,
    "A tool that is named with a version is called in that version",
    "exact",
    page=VERSION_PAGE,
    remedy="Send the id with its version.",
)
def calls_exact_version(exact: Seen) -> None:
    tool = exact.called().get("tool_id")
    exact.must(_version(tool) in ("2.0.0", "2"), f"`tool_id` {exact.scenario.tool!r}, not {tool!r}.")


@check(
    18,
    MUST,
    "A tool that is named without a version is called in its latest version",
    "versions",
    page=VERSION_PAGE,
    remedy="Send the id without a version, or compare versions as numbers: 10.0.0 is later than 9.1.0.",
)
def calls_newest_version(versions: Seen) -> None:
    tool = versions.called().get("tool_id")
    versions.must(_version(tool) in ("", "10.0.0", "10", "latest"), f"`tool_id` {TOOL}@10.0.0, not {tool!r}.")


@check(
    19,
    MUST,
    "Text in any script survives the round trip",
    "texts",
    page="Call Tool",
    remedy="Read and write JSON as UTF-8, and support every escape sequence.",
)
def texts_survive(texts: Seen) -> None:
    _survives(texts)


@check(
    20,
    GOOD,
    "Integers above 2^53 survive the round trip",
    "integers",
    page="Call Tool",
    remedy="Do not parse integers as floating-point numbers.",
)
def integers_survive(integers: Seen) -> None:
    _survives(integers)


def _is_named(seen: Seen, tool: str) -> bool:
    """Whether a call names the tool of the kit; the LangChain form also accepts names in place of ids."""
    return tool == TOOL or (seen.form.name == "lc" and tool == TOOL.replace(".", "_"))


def _version(tool: Any) -> str:
    return str(tool).partition("@")[2]


def _survives(seen: Seen) -> None:
    """Both the input and the value are the input of the scenario."""
    expected = seen.scenario.input
    seen.must(are_same(seen.called().get("input"), expected), f"`input` {json.dumps(expected)}.")
    seen.must_return(expected)
