"""Checks of what a client sends to call a tool."""

from __future__ import annotations

import json
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.clients.observation import are_same
from toolgate_conformance.clients.rest.observation import RestObservation
from toolgate_conformance.clients.rest.scenarios import CALL_PATHS
from toolgate_conformance.clients.rest.stage import TOOL
from toolgate_conformance.registry import GOOD, MUST, Registry
from toolgate_conformance.servers.rest.forms import SPECIFIED

MEMBERS = frozenset({"call_id", "trace_id", "tool_id", "input", "context"})  # of a request, openapi.json
VERSION_PAGE = "Call Tool, Tool Version Resolution"

check: Registry[RestObservation] = Registry()


@check(10, MUST, "Call Tool")
def calls(plain: RestObservation) -> None:
    """A call is a POST to the path for calls, in the format of the protocol.

    Fix: Send {tool_id, input}; in OTC and enveloped OXP, put it into `request`.
    """
    request = plain.called()
    paths = CALL_PATHS[:1] if plain.form.name == "lc" else CALL_PATHS
    fits = any(plain.calls[0].path.endswith(path) for path in paths)
    plain.must(fits, f"A request POST {plain.form.call_path}.")
    tool = str(request.get("tool_id")).partition("@")[0]
    plain.must(_is_named(plain, tool), f"`tool_id` {plain.scenario.tool!r}.")


@check(11, MUST, "Call Tool")
def content_type(plain: RestObservation) -> None:
    """The content type of a call is application/json.

    Fix: Send content-type: application/json.
    """
    plain.called()
    named = plain.calls[0].content_type
    plain.must(named == "application/json", f"The content type application/json, not {named!r}.")


@check(12, MUST, "Call Tool, input")
def sends_input(plain: RestObservation) -> None:
    """The input is sent unchanged.

    Fix: Send the arguments in `input`, and add nothing to them.
    """
    request = plain.called()
    # Section 4.2 of the RFC says `inputs`, section 5.2 and every example `input`.
    sent = request.get("inputs" if plain.form.name == "rfc" and "input" not in request else "input")
    plain.must(are_same(sent, plain.scenario.input), f"`input` {json.dumps(plain.scenario.input)}.")


@check(13, MUST, "Call Tool, CallToolRequest", forms=SPECIFIED)
def known_members(plain: RestObservation) -> None:
    """A call has only members that the specification defines.

    Fix: Send no other members: the schema of the request allows none.
    """
    known = MEMBERS | ({"inputs"} if plain.form.name == "rfc" else set())
    others = sorted(plain.called().keys() - known)
    plain.must(not others, f"Only members among {', '.join(sorted(MEMBERS))}, not {', '.join(others)}.")


@check(14, GOOD, "Call Tool, call_id")
def sends_call_id(plain: RestObservation) -> None:
    """A call has an id, which is the one that the client was given.

    Fix: Send call_id: it lets a server recognize a retry.
    """
    found = plain.called().get("call_id")
    plain.must(isinstance(found, str) and found != "", "A `call_id`.")
    # A client whose command does not mention the id may be one that makes its own.
    plain.must(found == plain.call_id or not plain.takes_call_id, f"`call_id` {plain.call_id!r}, not {found!r}.")


@check(15, MUST, "Call Tool, call_id")
def call_ids_differ(plain: RestObservation, null: RestObservation) -> None:
    """Different calls have different ids.

    Fix: Generate an id for each call: a server answers a known id with the earlier result.
    """
    one, other = (seen.called().get("call_id") for seen in (plain, null))
    if one is None or other is None:
        raise SkippedError("The client sends no call_id.")
    null.must(one != other, f"A `call_id` other than {one!r}, which an earlier call had.")


@check(16, MUST, "Call Tool")
def called_once(plain: RestObservation) -> None:
    """A call that succeeds is sent once.

    Fix: Send a call once.
    """
    plain.must(len(plain.calls) == 1, f"One call, not {len(plain.calls)}.")


@check(17, MUST, VERSION_PAGE)
def calls_exact_version(exact: RestObservation) -> None:
    """A tool that is named with a version is called in that version.

    Fix: Send the id with its version.
    """
    tool = exact.called().get("tool_id")
    exact.must(_version(tool) in ("2.0.0", "2"), f"`tool_id` {exact.scenario.tool!r}, not {tool!r}.")


@check(18, MUST, VERSION_PAGE)
def calls_newest_version(versions: RestObservation) -> None:
    """A tool that is named without a version is called in its latest version.

    Fix: Send the id without a version, or compare versions as numbers: 10.0.0 is later than 9.1.0.
    """
    tool = versions.called().get("tool_id")
    versions.must(_version(tool) in ("", "10.0.0", "10", "latest"), f"`tool_id` {TOOL}@10.0.0, not {tool!r}.")


@check(19, MUST, "Call Tool")
def texts_survive(texts: RestObservation) -> None:
    """Text in any script survives the round trip.

    Fix: Read and write JSON as UTF-8, and support every escape sequence.
    """
    _survives(texts)


@check(20, GOOD, "Call Tool")
def integers_survive(integers: RestObservation) -> None:
    """Integers above 2^53 survive the round trip.

    Fix: Do not parse integers as floating-point numbers.
    """
    _survives(integers)


def _is_named(seen: RestObservation, tool: str) -> bool:
    """Whether a call names the tool of the kit; the LangChain form also accepts names in place of ids."""
    return tool == TOOL or (seen.form.name == "lc" and tool == TOOL.replace(".", "_"))


def _version(tool: Any) -> str:
    return str(tool).partition("@")[2]


def _survives(seen: RestObservation) -> None:
    """Both the input and the value are the input of the scenario."""
    expected = seen.scenario.input
    seen.must(are_same(seen.called().get("input"), expected), f"`input` {json.dumps(expected)}.")
    seen.must_print(expected)
