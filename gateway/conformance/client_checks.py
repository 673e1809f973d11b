"""Checks of clients of a dialect of OTC or OXP, by what they do to the scripted tool server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gateway.conformance.checks import Check, Level, SkippedError
from gateway.conformance.clients import ClientSubject, Seen
from gateway.conformance.rest import FORMS, Form
from gateway.conformance.scenarios import (
    ASKED_ACCESS,
    ASKED_SECRET,
    AUTHORIZE,
    BUSY_MS,
    CALL_PATHS,
    LIMITED_S,
    SAYING,
    TOOL,
    WRONG_PARAMETER,
    request_in,
)
from gateway.conformance.scripted import Request

MUST, SHOULD, GOOD = Level
ALL = frozenset(FORMS)
NEW = frozenset({"otc", "rfc", "oxp", "oxp-env"})  # as specified; the LangChain form is as its programs do it
REQUIRING = frozenset({"otc", "oxp", "oxp-env"})  # whose tools say what they require
CHALLENGING = frozenset({"oxp", "oxp-env"})  # whose servers send users to a page
MEMBERS = frozenset({"call_id", "trace_id", "tool_id", "input", "context"})  # of a request, openapi.json
OTC_URL = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
VERSIONS = {"otc": {"otc://1.0", OTC_URL}, "oxp-env": {"urn:oxp:1.0", OTC_URL}, "oxp": {"1.0", "1.0.0"}}
MAX_REPEATED = 20  # times, of a call that fails each time
CLOCK_S = 0.02  # by which a client's clock may be ahead of ours

Judge = Callable[..., None]  # of what was seen in each scenario, in their order


class _Entry(Struct, frozen=True):
    number: int
    level: Level
    title: str
    page: str
    remedy: str
    scenarios: Sequence[str]
    forms: frozenset[str]
    judge: Judge


_entries: list[_Entry] = []


def check(
    number: int, level: Level, title: str, page: str, remedy: str, *scenarios: str, forms: frozenset[str] = ALL
) -> Callable[[Judge], Judge]:
    """Adds a check of what is seen in some scenarios; `page` is the page of the specification that it follows."""

    def add(judge: Judge) -> Judge:
        _entries.append(_Entry(number, level, title, page, remedy, scenarios, forms, judge))
        return judge

    return add


def client_checks(form: Form) -> list[Check]:
    """The checks of clients of a dialect, by id: that of the checks of its servers, with a C, as in OXPC-010."""
    return sorted(_checks(form), key=lambda each: each.id)


def scenarios_of(form: Form) -> Mapping[str, Sequence[str]]:
    """The scenarios that each check of a dialect needs, by its id."""
    return {_id(form, entry): entry.scenarios for entry in _entries if form.name in entry.forms}


def _checks(form: Form) -> Iterator[Check]:
    for entry in _entries:
        if form.name in entry.forms:
            section = f"{form.source}, {entry.page}"
            yield Check(_id(form, entry), entry.level, entry.title, section, entry.remedy, _running(entry))


def _id(form: Form, entry: _Entry) -> str:
    return f"{form.prefix}C-{entry.number:03d}"


def _running(entry: _Entry) -> Callable[[ClientSubject], Awaitable[None]]:
    async def run(subject: ClientSubject) -> None:
        entry.judge(*await asyncio.gather(*(subject.seen(name) for name in entry.scenarios)))

    return run


# The list, and the version of the protocol.


@check(1, MUST, "The tools are listed with `GET /tools`", "List Tools",
       "Ask for the list before the first call.", "plain")  # fmt: skip
def lists(plain: Seen) -> None:
    plain.must(bool(plain.lists), "A request GET /tools.")


@check(2, SHOULD, "Each call names the version of the protocol", "Versioning",
       "Send $schema in the body of OTC and enveloped OXP, the header OXP-Version in flat OXP.", "plain",
       forms=NEW)  # fmt: skip
def names_version(plain: Seen) -> None:
    plain.called()
    named = _versions(plain, plain.calls[0])
    plain.must(bool(named), "The header OXP-Version." if plain.form.is_flat else "A member `$schema` of the body.")


@check(3, MUST, "No request names another version of the protocol", "Versioning",
       "Write the version exactly as the specification does.", "plain", forms=NEW)  # fmt: skip
def names_no_other_version(plain: Seen) -> None:
    right = VERSIONS.get(plain.form.name, set()) | {plain.form.schema}
    for request in plain.lists + plain.calls:
        for named in _versions(plain, request):
            plain.must(named in right, f"A version such as {plain.form.schema or '1.0'}, not {named!r}.")


@check(4, GOOD, "The URL of the tool server may have a path", "List Tools",
       "Append /tools to the URL, rather than to its host.", "prefixed")  # fmt: skip
def keeps_path(prefixed: Seen) -> None:
    found = prefixed.lists + prefixed.calls
    fits = bool(found) and all(it.path.startswith(prefixed.scenario.path) for it in found)
    prefixed.must(fits, f"Requests below {prefixed.scenario.path}.")


# Calls.


@check(10, MUST, "A call is sent with POST to the path of calls, in the form of the protocol", "Call Tool",
       "Send {tool_id, input}, in OTC and enveloped OXP inside `request`.", "plain")  # fmt: skip
def calls(plain: Seen) -> None:
    request = plain.called()
    paths = CALL_PATHS[:1] if plain.form.name == "lc" else CALL_PATHS
    fits = any(plain.calls[0].path.endswith(path) for path in paths)
    plain.must(fits, f"A request POST {plain.form.call_path}.")
    tool = str(request.get("tool_id")).partition("@")[0]
    plain.must(_is_named(plain, tool), f"`tool_id` {plain.scenario.tool!r}.")


@check(11, MUST, "The content type of a call is JSON", "Call Tool",
       "Send content-type: application/json.", "plain")  # fmt: skip
def content_type(plain: Seen) -> None:
    plain.called()
    named = plain.calls[0].headers.get("content-type", "").partition(";")[0].strip()
    plain.must(named.lower() == "application/json", f"The content type application/json, not {named!r}.")


@check(12, MUST, "The input is sent as it was given", "Call Tool, input",
       "Send the arguments in `input`, and add nothing.", "plain")  # fmt: skip
def sends_input(plain: Seen) -> None:
    request = plain.called()
    # Section 4.2 of the RFC says `inputs`, section 5.2 and every example `input`.
    sent = request.get("inputs" if plain.form.name == "rfc" and "input" not in request else "input")
    plain.must(_are_same(sent, plain.scenario.input), f"`input` {json.dumps(plain.scenario.input)}.")


@check(13, MUST, "A call has only members that the specification knows", "Call Tool, CallToolRequest",
       "The request is a closed object: keep notes of your own out of it.", "plain", forms=NEW)  # fmt: skip
def known_members(plain: Seen) -> None:
    known = MEMBERS | ({"inputs"} if plain.form.name == "rfc" else set())
    others = sorted(plain.called().keys() - known)
    plain.must(not others, f"Members of {', '.join(sorted(MEMBERS))} only, not {', '.join(others)}.")


@check(14, SHOULD, "A call has the id that it was given", "Call Tool, call_id",
       "Send call_id: with it a server can tell a repetition from another call.", "plain")  # fmt: skip
def sends_call_id(plain: Seen) -> None:
    plain.must(plain.called().get("call_id") == plain.call_id, f"`call_id` {plain.call_id!r}.")


@check(15, MUST, "Two calls have two ids", "Call Tool, call_id",
       "Make an id for each call: under an old id a server sends the old result.", "plain", "null")  # fmt: skip
def call_ids_differ(plain: Seen, null: Seen) -> None:
    one, other = (seen.called().get("call_id") for seen in (plain, null))
    if one is None or other is None:
        raise SkippedError("The client sends no call_id.")
    null.must(one != other, f"Another `call_id` than {one!r}, which an earlier call had.")


@check(16, MUST, "A call that succeeds is sent once", "Call Tool", "Send a call once.", "plain")
def called_once(plain: Seen) -> None:
    plain.must(len(plain.calls) == 1, f"One call, not {len(plain.calls)}.")


@check(17, MUST, "The version of a tool that is named is the one that is called", "Call Tool, Tool Version Resolution",
       "Send the id with its version.", "exact")  # fmt: skip
def calls_exact_version(exact: Seen) -> None:
    tool = exact.called().get("tool_id")
    exact.must(_version(tool) in ("2.0.0", "2"), f"`tool_id` {exact.scenario.tool!r}, not {tool!r}.")


@check(18, MUST, "Without a version the newest is called", "Call Tool, Tool Version Resolution",
       "Send the id without a version, or compare versions as numbers: 10.0.0 is newer than 9.1.0.",
       "versions")  # fmt: skip
def calls_newest_version(versions: Seen) -> None:
    tool = versions.called().get("tool_id")
    versions.must(_version(tool) in ("", "10.0.0", "10", "latest"), f"`tool_id` {TOOL}@10.0.0, not {tool!r}.")


@check(19, MUST, "Text of any script goes there and back", "Call Tool",
       "Read and write JSON in UTF-8, with all its escapes.", "texts")  # fmt: skip
def texts_survive(texts: Seen) -> None:
    _survives(texts)


@check(20, GOOD, "Integers above 2^53 go there and back", "Call Tool",
       "Read numbers as they are, not as floating point.", "integers")  # fmt: skip
def integers_survive(integers: Seen) -> None:
    _survives(integers)


# Answers.


@check(30, MUST, "The value of a result arrives", "Call Tool, CallToolResponse",
       "Print `value` as JSON, and exit with 0. In the RFC it is in `output`.", "plain")  # fmt: skip
def value_arrives(plain: Seen) -> None:
    plain.must(plain.has_succeeded, "Exit code 0 after a call that succeeds.")
    expected = {"said": "hello", "times": 3}
    plain.must(_are_same(plain.value(), expected), f"The value {json.dumps(expected)} on the standard output.")


@check(31, MUST, "The value null is a success", "Call Tool, CallToolResponse",
       "Go by `success`, not by whether there is a value.", "null")  # fmt: skip
def null_succeeds(null: Seen) -> None:
    null.must(null.has_succeeded, "Exit code 0 for a result with success true and value null.")
    printed = null.stdout.strip().rpartition("\n")[2]
    null.must(printed in ("", "null"), f"null on the standard output, not {printed[:100]!r}.")


@check(32, MUST, "Members that the client does not know do no harm", "CallToolResponse, ToolDefinition",
       "Ignore them: a later version adds members.", "foreign")  # fmt: skip
def foreign_members(foreign: Seen) -> None:
    foreign.must(foreign.has_succeeded, "Exit code 0, as without these members.")


@check(33, MUST, "An answer that takes two seconds is waited for, and the call is not sent again", "Call Tool",
       "Wait at least some minutes: tools take their time.", "slow")  # fmt: skip
def waits(slow: Seen) -> None:
    slow.must(len(slow.calls) == 1, f"One call, not {len(slow.calls)}.")
    slow.must(slow.has_succeeded, "Exit code 0 after an answer that came late.")


@check(34, MUST, "Other tools in the list do no harm", "List Tools",
       "Leave out tools that cannot be read, and go on with the rest.", "many")  # fmt: skip
def other_tools(many: Seen) -> None:
    many.must(many.has_succeeded, "Exit code 0: the tool is in the list.")


@check(35, MUST, "An empty list is no success, and no reason to hang", "List Tools",
       "Say that there is no such tool, and exit with another code than 0.", "empty")  # fmt: skip
def empty_list(empty: Seen) -> None:
    _has_failed(empty, "a tool that is not there")


@check(36, MUST, "An answer that is no JSON is no success", "Call Tool",
       "Read the body as JSON, and fail where it is none.", "garbled")  # fmt: skip
def garbled_answer(garbled: Seen) -> None:
    _has_failed(garbled, "an answer that is a page of HTML")


# Failures.


@check(40, MUST, "A tool that failed is a failure", "Call Tool, ToolError",
       "Go by `success`: the status is 200 for a tool that failed, too.", "failed")  # fmt: skip
def failure_is_failure(failed: Seen) -> None:
    _has_failed(failed, "a result with success false")


@check(41, MUST, "A refused call is a failure", "Call Tool, ServerErrorResponse",
       "Go by the status: 400 and 401 have no result.", "refused", "unauthorized")  # fmt: skip
def refusal_is_failure(refused: Seen, unauthorized: Seen) -> None:
    _has_failed(refused, "status 400")
    _has_failed(unauthorized, "status 401")


@check(42, MUST, "Input that does not fit is a failure", "Call Tool, ValidationErrorResponse",
       "Go by the status: 422 has no result.", "invalid")  # fmt: skip
def invalid_is_failure(invalid: Seen) -> None:
    _has_failed(invalid, "status 422")


@check(43, MUST, "A call that failed with `can_retry` false is not sent again", "Call Tool, Retrying Errors",
       "Leave it: another attempt fails as well, or does harm.", "failed")  # fmt: skip
def no_retry(failed: Seen) -> None:
    _called_once(failed)


@check(44, MUST, "A call that failed without `can_retry` is not sent again", "Call Tool, Retrying Errors",
       "Take a missing can_retry for false.", "failed-plainly")  # fmt: skip
def no_retry_by_default(plainly: Seen) -> None:
    _called_once(plainly)


@check(45, SHOULD, "A refused call is not sent again as it is", "Call Tool, Error Responses",
       "400 and 422 are the same the next time.", "refused", "invalid")  # fmt: skip
def no_retry_of_refusals(refused: Seen, invalid: Seen) -> None:
    _called_once(refused)
    _called_once(invalid)


@check(46, SHOULD, "The message of a failure is shown", "Call Tool, ToolError",
       "Print `message`: it is meant for people and models.", "failed", "refused")  # fmt: skip
def shows_message(failed: Seen, refused: Seen) -> None:
    for seen in (failed, refused):
        seen.must(SAYING in seen.output, f"The message {SAYING!r} in what is printed.")


@check(47, SHOULD, "The parameters that do not fit are shown", "Call Tool, ValidationErrorResponse",
       "Print `parameter_errors`: models correct their input by it.", "invalid")  # fmt: skip
def shows_parameter_errors(invalid: Seen) -> None:
    fits = WRONG_PARAMETER in invalid.output and "count" in invalid.output
    invalid.must(fits, f"The parameter count and {WRONG_PARAMETER!r} in what is printed.")


@check(48, SHOULD, "A call is not repeated before `retry_after_ms` has passed", "Call Tool, Retrying Errors",
       "Wait as long as the answer says.", "busy")  # fmt: skip
def waits_before_retry(busy: Seen) -> None:
    _waited(busy, BUSY_MS / 1000)


@check(49, GOOD, "A call that failed with `can_retry` true is repeated", "Call Tool, Retrying Errors",
       "Repeat it after retry_after_ms; the specification says that clients should.", "busy")  # fmt: skip
def retries(busy: Seen) -> None:
    busy.must(len(busy.calls) > 1, "A second call.")
    busy.must(busy.has_succeeded, "Exit code 0: the second call succeeds.")


@check(50, SHOULD, "A call that may be repeated is given up at last", "Call Tool, Retrying Errors",
       "Bound the attempts, and the time they take.", "always-busy")  # fmt: skip
def gives_up(busy: Seen) -> None:
    busy.must(len(busy.calls) <= MAX_REPEATED, f"At most {MAX_REPEATED} calls, not {len(busy.calls)}.")
    _has_failed(busy, "a tool that fails each time")


@check(51, MUST, "A call that may have run is not sent again without its id", "Call Tool, call_id",
       "Send the repetition with the call_id of the call, or do not repeat it: else the tool runs twice.",
       "broken", "reset")  # fmt: skip
def repeats_with_id(broken: Seen, reset: Seen) -> None:
    for seen, what in ((broken, "a status of 500"), (reset, "a broken connection")):
        ids = [(request_in(seen.form, it) or {}).get("call_id") for it in seen.calls]
        fits = len(ids) < 2 or (ids[0] is not None and len(set(map(repr, ids))) == 1)
        seen.must(fits, f"After {what} no other call, or one with the same `call_id`; these were {ids}.")


@check(52, GOOD, "A call whose answer was lost is sent again with its id", "Call Tool, call_id",
       "Repeat it with the same call_id: the server sends the result that it has.", "reset")  # fmt: skip
def repeats(reset: Seen) -> None:
    reset.must(len(reset.calls) > 1, "A second call with the same `call_id`.")
    reset.must(reset.has_succeeded, "Exit code 0: the second call succeeds.")


@check(53, GOOD, "A call is not repeated before `Retry-After` has passed", "Call Tool, as RFC 9110 has Retry-After",
       "Wait as many seconds as the header of a 429 says.", "limited")  # fmt: skip
def waits_when_limited(limited: Seen) -> None:
    _waited(limited, LIMITED_S)


# Credentials and secrets.


@check(60, MUST, "Each request has the credential", "Security",
       "Send it for the list, too: in Authorization or in the header for API keys.", "plain")  # fmt: skip
def sends_credential(plain: Seen) -> None:
    found = plain.lists + plain.calls
    plain.must(bool(found), "A request.")
    for request in found:
        plain.must(plain.token in str(request.headers), f"A credential in the headers of {request.method}.")


@check(61, MUST, "The credential is in no URL", "Security",
       "Send it in a header: URLs are logged.", "plain")  # fmt: skip
def credential_in_no_url(plain: Seen) -> None:
    plain.must(not any(plain.token in it.target for it in plain.requests), "No credential in a URL.")


@check(62, MUST, "The credential goes to no other origin", "Security",
       "Follow no redirect to another host or port with it.", "moved-list", "moved-call")  # fmt: skip
def credential_stays(moved_list: Seen, moved_call: Seen) -> None:
    for seen in (moved_list, moved_call):
        seen.must(not any(it.has(seen.token) for it in seen.elsewhere), "No credential at another origin.")


@check(63, SHOULD, "The input of a call goes to no other origin", "Security",
       "Follow no redirect of a POST to another host or port.", "moved-call")  # fmt: skip
def input_stays(moved: Seen) -> None:
    moved.must(not any(it.body for it in moved.elsewhere), "No call at another origin.")


@check(64, SHOULD, "The credential is not printed", "Security",
       "Keep credentials out of messages and logs.", "unauthorized", "failed")  # fmt: skip
def credential_not_shown(unauthorized: Seen, failed: Seen) -> None:
    for seen in (unauthorized, failed):
        seen.must(seen.token not in seen.output, "No credential in what is printed.")


@check(65, MUST, "A tool that requires nothing gets no tokens and no secrets", "Tool Requirements",
       "Send what the definition of the tool asks for.", "unrequired", forms=REQUIRING)  # fmt: skip
def nothing_unrequired(unrequired: Seen) -> None:
    unrequired.called()
    _holds_no_secret(unrequired, unrequired.secrets)


@check(66, MUST, "A tool gets only the tokens and secrets that it requires", "Tool Requirements",
       "Choose by the ids in the definition.", "required", forms=REQUIRING)  # fmt: skip
def only_required(required: Seen) -> None:
    required.called()
    others = {id_: secret for id_, secret in required.secrets.items() if id_ not in (ASKED_ACCESS, ASKED_SECRET)}
    _holds_no_secret(required, others)


@check(67, GOOD, "A tool gets the tokens and secrets that it requires", "Tool Requirements",
       "Send them in `context`: authorization as {id, token}, secrets as {id, value}.", "required",
       forms=REQUIRING)  # fmt: skip
def sends_required(required: Seen) -> None:
    given = required.called().get("context")
    context = given if isinstance(given, dict) else {}
    if not any(it.has(secret) for it in required.calls for secret in required.secrets.values()):
        raise SkippedError("The client takes no secrets from its environment, it seems.")
    for kind, member, id_ in (("authorization", "token", ASKED_ACCESS), ("secrets", "value", ASKED_SECRET)):
        entry = {"id": id_, member: required.secrets[id_]}
        sent = context.get(kind)
        fits = isinstance(sent, list) and any(isinstance(it, dict) and entry.items() <= it.items() for it in sent)
        required.must(fits, f"{{id: {id_}, {member}: ...}} in `context.{kind}`.")


# Challenges.


@check(70, MUST, "The page where a user grants access is not opened by the client", "Tool Requirements, Challenges",
       "Leave it to the user: it is the user who agrees.", "challenge", forms=CHALLENGING)  # fmt: skip
def url_not_opened(challenge: Seen) -> None:
    opened = any(it.path == AUTHORIZE for it in challenge.elsewhere)
    challenge.must(not opened, "No request for the url of the challenge.")


@check(71, SHOULD, "The page where a user grants access is shown", "Tool Requirements, Challenges",
       "Print the url of each challenge, or open it in the user's browser.", "challenge",
       forms=CHALLENGING)  # fmt: skip
def url_shown(challenge: Seen) -> None:
    challenge.must(AUTHORIZE in challenge.output, "The url of the challenge in what is printed.")


@check(72, MUST, "The credential is not sent where a challenge points", "Tool Requirements, Challenges",
       "Ask check_url without it: it may be on another host.", "challenge", forms=CHALLENGING)  # fmt: skip
def challenge_without_credential(challenge: Seen) -> None:
    carried = any(it.has(challenge.token) for it in challenge.elsewhere)
    challenge.must(not carried, "No credential at the url or check_url of a challenge.")


@check(73, SHOULD, "A call is not sent again before the user has agreed", "Tool Requirements, Challenges",
       "Ask check_url until it says completed, or ask the user.", "challenge", forms=CHALLENGING)  # fmt: skip
def waits_for_user(challenge: Seen) -> None:
    _called_once(challenge)
    _has_failed(challenge, "a challenge that nobody answers")


# What checks have in common.


def _versions(seen: Seen, request: Request) -> list[Any]:
    """The versions of the protocol that a request names."""
    if seen.form.is_flat:
        return [request.headers["oxp-version"]] if "oxp-version" in request.headers else []
    document = request.document
    return [document["$schema"]] if isinstance(document, dict) and "$schema" in document else []


def _is_named(seen: Seen, tool: str) -> bool:
    """Whether a call means the tool of the kit; the LangChain form also goes by names."""
    return tool == TOOL or (seen.form.name == "lc" and tool == TOOL.replace(".", "_"))


def _version(tool: Any) -> str:
    return str(tool).partition("@")[2]


def _are_same(one: Any, other: Any) -> bool:
    """Whether two documents are the same; unlike `==`, true is not 1, though 3.0 is 3."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_are_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _survives(seen: Seen) -> None:
    """Both the input and the value are the input of the scenario."""
    expected = seen.scenario.input
    seen.must(_are_same(seen.called().get("input"), expected), f"`input` {json.dumps(expected)}.")
    seen.must(seen.has_succeeded, "Exit code 0 after a call that succeeds.")
    seen.must(_are_same(seen.value(), expected), f"The value {json.dumps(expected)} on the standard output.")


def _has_failed(seen: Seen, after: str) -> None:
    seen.must(seen.exit_code is not None, f"An end of the command after {after}.")
    seen.must(not seen.has_succeeded, f"Another exit code than 0 after {after}.")


def _called_once(seen: Seen) -> None:
    seen.called()
    seen.must(len(seen.calls) == 1, f"One call, not {len(seen.calls)}.")


def _waited(seen: Seen, least_s: float) -> None:
    """The second call came no earlier than so many seconds after the first."""
    if len(seen.calls) < 2:
        raise SkippedError("The client does not repeat the call.")
    pause_s = seen.calls[1].at_s - seen.calls[0].at_s
    seen.must(pause_s >= least_s - CLOCK_S, f"A pause of at least {least_s:g} s, not {pause_s:.3f} s.")


def _holds_no_secret(seen: Seen, secrets: Mapping[str, str]) -> None:
    for id_, secret in secrets.items():
        seen.must(not any(it.has(secret) for it in seen.requests), f"No value of {id_} in a request.")
