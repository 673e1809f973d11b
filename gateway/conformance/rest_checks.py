"""Checks of tool servers that speak a dialect of OTC or OXP; each dialect has them under ids of its own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from gateway.conformance.checks import Check, Level, SkippedError
from gateway.conformance.http import Answer
from gateway.conformance.rest import FORMS, Form, RestServer
from gateway.conformance.schemas import fits, is_schema

MUST, SHOULD, GOOD = Level
ALL = frozenset(FORMS)
NEW = frozenset({"otc", "rfc", "oxp", "oxp-env"})  # as specified; the LangChain form is as its programs do it
ENVELOPED = frozenset({"otc", "rfc", "oxp-env"})
HEADER = frozenset({"oxp"})
TOOL_ID = re.compile(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+(@\d+\.\d+\.\d+)?", re.ASCII)
VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
AT_ONCE = 20
LARGE = 256 * 1024  # characters of an argument
DEPTH = 5000  # of nested lists
TRACES = ("Traceback (most recent call last)", 'File "/', "\tat ", "node_modules/", "panic: ")

RunCheck = Callable[[RestServer], Awaitable[None]]


class _Entry(Struct, frozen=True):
    number: int
    level: Level
    title: str
    page: str
    remedy: str
    forms: frozenset[str]
    run: RunCheck


_entries: list[_Entry] = []


def check(
    number: int, level: Level, title: str, page: str, remedy: str, forms: frozenset[str] = ALL
) -> Callable[[RunCheck], RunCheck]:
    """Adds a check; `page` is the page of the specification that it follows."""

    def add(run: RunCheck) -> RunCheck:
        _entries.append(_Entry(number, level, title, page, remedy, forms, run))
        return run

    return add


def checks_for(form: Form) -> list[Check]:
    """The checks of a dialect, by id."""
    return sorted(_checks_for(form), key=lambda each: each.id)


def _checks_for(form: Form) -> Iterator[Check]:
    for entry in _entries:
        if form.name in entry.forms:
            id_ = f"{form.prefix}-{entry.number:03d}"
            yield Check(id_, entry.level, entry.title, f"{form.source}, {entry.page}", entry.remedy, entry.run)


# Health and the list.


@check(1, MUST, "`GET /health` answers 200 when the server is ready", "Health", "Answer GET /health with 200.")
async def health(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    answer.must(answer.status == 200, "Status 200.")


@check(2, MUST, "`GET /health` needs no credential", "Health", "Leave /health out of authentication.", NEW)
async def health_is_open(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("The server is asked without a credential anyway.")
    answer = await server.client.send("GET", "/health", is_known=False)
    answer.must(answer.status == 200, "Status 200 without a credential.")


@check(3, GOOD, "The body of `/health` is JSON", "Health", "Send at least {}: a client reads it unasked.")
async def health_is_json(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    _ = answer.document


@check(
    4, MUST, "`/health` has the header `OXP-Version`", "Versioning", "Send OXP-Version: 1.0 in every answer.", HEADER
)
async def health_has_version(server: RestServer) -> None:
    answer = await server.client.send("GET", "/health")
    _versioned(answer)


@check(5, MUST, "The list of tools has the member that the dialect names", "List Tools",
       "Send `tools` in OTC, `items` in OXP; always a list, also an empty one.")  # fmt: skip
async def list_has_member(server: RestServer) -> None:
    answer = await server.list_tools()
    answer.must(answer.status == 200, "Status 200.")
    member = server.form.list_member
    listed = answer.document if member is None else answer.member(member)
    answer.must(isinstance(listed, list), "A list of tools" + (f" in `{member}`." if member else "."))


@check(6, MUST, "Each tool has an id `Toolkit.Tool@x.y.z` of its own", "List Tools, ToolDefinition",
       "Name each version of each tool once.", NEW - {"rfc"})  # fmt: skip
async def ids(server: RestServer) -> None:
    answer = await server.list_tools()
    found = [each.get("id") for each in await server.tools()]
    for each in found:
        fits = isinstance(each, str) and TOOL_ID.fullmatch(each) is not None
        answer.must(fits, f"An id such as Toolkit.Tool@1.0.0, not {each!r}.")
    answer.must(len(set(found)) == len(found), "Ids that differ.")


@check(7, MUST, "The `version` of each tool is `x.y.z`, and that of its id", "List Tools, ToolDefinition",
       "Write the version with three numbers, in both places.", NEW - {"rfc"})  # fmt: skip
async def versions(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        version, (_, _, of_id) = each.get("version"), str(each.get("id")).partition("@")
        fits = isinstance(version, str) and VERSION.fullmatch(version) is not None
        answer.must(fits, f"A version such as 1.0.0 for {each.get('id')}, not {version!r}.")
        answer.must(of_id in ("", version), f"The same version in the id {each.get('id')!r} as {version!r}.")


@check(8, MUST, "The `name` of each tool has 1 to 64 letters, digits, `_` and `-`", "List Tools, ToolDefinition",
       "Make names that models take: the id with _ for the dot.", NEW - {"rfc"})  # fmt: skip
async def names(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        fits = isinstance(each.get("name"), str) and NAME.fullmatch(each["name"]) is not None
        answer.must(fits, f"A name of 1 to 64 of A-Z a-z 0-9 _ - for {each.get('id')}, not {each.get('name')!r}.")


@check(
    9, MUST, "Each tool has a `description`", "List Tools, ToolDefinition", "Say what the tool does: models read it."
)
async def descriptions(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        answer.must(isinstance(each.get("description"), str), f"A description of {each.get('id', each.get('name'))}.")


@check(10, MUST, "The input schema of each tool is a JSON Schema of an object", "List Tools, ToolDefinition",
       "In OTC it is in input_schema.parameters, in OXP it is input_schema itself.")  # fmt: skip
async def input_schemas(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        schema, name = server.form.input_schema(each), each.get("id", each.get("name"))
        answer.must(isinstance(schema, dict), f"A schema of the input of {name}.")
        answer.must(schema.get("type", "object") == "object", f"An object as the input of {name}.")
        answer.must(is_schema(schema), f"A valid JSON Schema as that of the input of {name}.")


@check(11, MUST, "The requirements of each tool are as specified", "Tool Requirements",
       "authorization and secrets are lists of objects with an id, user_id is true or false.", NEW)  # fmt: skip
async def requirements(server: RestServer) -> None:
    answer = await server.list_tools()
    for each in await server.tools():
        asked, name = each.get("requirements"), each.get("id", each.get("name"))
        if asked is None:
            continue
        answer.must(isinstance(asked, dict), f"An object as the requirements of {name}.")
        for kind in ("authorization", "secrets"):
            entries = asked.get(kind, [])
            fits = isinstance(entries, list) and all(
                isinstance(it, dict) and isinstance(it.get("id"), str) for it in entries
            )
            answer.must(fits, f"A list of objects with an id as {kind} of {name}.")
        answer.must(isinstance(asked.get("user_id", False), bool), f"true or false as user_id of {name}.")


@check(12, MUST, "The list has the version of the protocol", "Versioning",
       "Send $schema in every body of OTC, OXP-Version in every answer of flat OXP.", NEW)  # fmt: skip
async def list_has_version(server: RestServer) -> None:
    answer = await server.list_tools()
    if server.form.is_flat:
        _versioned(answer)
    else:
        answer.must(isinstance(answer.member("$schema"), str), "A text in `$schema`.")


@check(
    13,
    GOOD,
    "A body of `{}` in a request for the list does no harm",
    "List Tools",
    "Read the body of a GET, and forget it.",
)
async def list_takes_body(server: RestServer) -> None:
    answer = await server.list_tools(body=b"{}")
    answer.must(answer.status == 200, "Status 200.")
    again = await server.list_tools()
    again.must(again.status == 200, "Status 200 for the next request.")


@check(
    14, GOOD, "A parameter that nobody knows does no harm", "List Tools", "Ignore query parameters that are not known."
)
async def list_takes_query(server: RestServer) -> None:
    answer = await server.client.send("GET", "/tools?kit=1", headers=server.form.headers)
    answer.must(answer.status == 200, "Status 200.")


# Calls that run.


@check(
    20, MUST, "A valid call is answered with 200 and a result", "Call Tool", "Answer 200, also for a tool that fails."
)
async def call_answers(server: RestServer) -> None:
    answer = await server.make(server.allowed(), call_id=server.new_id())
    answer.must(answer.status == 200, "Status 200 for a call that is valid.")
    result = server.form.result(answer)
    answer.must(isinstance(result.get("success"), bool), "true or false in `success`.")


@check(21, MUST, "A successful result has a `value` and no `error`", "Call Tool, CallToolResponse",
       "Send value, null if the tool returns nothing.")  # fmt: skip
async def call_has_value(server: RestServer) -> None:
    answer, result = await server.made(call_id=server.new_id())
    outcome = server.form.outcome(result)
    answer.must(result.get("success") is True, "A call that succeeds.")
    answer.must("value" in outcome, "A `value` in the result.")
    answer.must("error" not in outcome, "No `error` in a successful result.")


@check(22, MUST, "The result has the `call_id` of the request", "Call Tool", "Copy call_id into the result.", NEW)
async def call_id_comes_back(server: RestServer) -> None:
    id_ = server.new_id()
    answer, result = await server.made(call_id=id_)
    answer.must(result.get("call_id") == id_, f"`call_id` {id_!r}.")


@check(23, MUST, "A call without an id is given one", "Call Tool", "Make an id that no other call has.", NEW)
async def call_id_is_made(server: RestServer) -> None:
    (answer, one), (_, other) = await server.made(), await server.made()
    made = one.get("call_id")
    answer.must(isinstance(made, str) and made != "", "A text in `call_id`.")
    answer.must(made != other.get("call_id"), "Another `call_id` for each call.")


@check(24, SHOULD, "`duration` is a number of milliseconds, at least 0", "Call Tool, CallToolResponse",
       "Leave it out, or send a number.", NEW)  # fmt: skip
async def duration(server: RestServer) -> None:
    answer, result = await server.made(call_id=server.new_id())
    took = result.get("duration", 0)
    fits = isinstance(took, int | float) and not isinstance(took, bool) and took >= 0
    answer.must(fits, f"A number, at least 0, not {took!r}.")


@check(25, MUST, "The answer to a call has the version of the protocol", "Versioning",
       "Send $schema in every body of OTC, OXP-Version in every answer of flat OXP.", NEW)  # fmt: skip
async def call_has_version(server: RestServer) -> None:
    answer, _ = await server.made(call_id=server.new_id())
    if server.form.is_flat:
        _versioned(answer)
    else:
        answer.must(isinstance(answer.member("$schema"), str), "A text in `$schema`.")


@check(
    26,
    MUST,
    "The value fits the output schema of its tool",
    "Call Tool",
    "Return what output_schema promises.",
    NEW - {"rfc"},
)
async def value_fits(server: RestServer) -> None:
    call = server.allowed()
    definition = await server.some_tool(lambda it: _is_meant(it, call.tool), "is the one that is called")
    schema = definition.get("output_schema")
    if not isinstance(schema, dict) or not is_schema(schema):
        raise SkippedError("The tool has no output schema that can be used.")
    answer, result = await server.made(call_id=server.new_id())
    value = server.form.outcome(result).get("value")
    if (does_fit := fits(schema, value)) is None:
        raise SkippedError("The output schema of the tool refers to another document.")
    answer.must(does_fit, f"A value that fits {json.dumps(schema)[:200]}.")


@check(
    27,
    MUST,
    "Calls at the same time get their own answers",
    "Call Tool",
    "Keep nothing of a call in what calls share.",
    NEW,
)
async def calls_at_once(server: RestServer) -> None:
    wanted = [server.new_id() for _ in range(AT_ONCE)]
    made = await asyncio.gather(*(server.made(call_id=id_) for id_ in wanted))
    for id_, (answer, result) in zip(wanted, made, strict=True):
        answer.must(result.get("call_id") == id_, f"The answer to the call {id_!r}.")


@check(28, GOOD, "A call that comes twice with one id gets one result", "Call Tool, call_id",
       "Keep results by caller and call_id for a while: clients repeat calls whose answer got lost.", NEW)  # fmt: skip
async def twice_is_once(server: RestServer) -> None:
    id_ = server.new_id()
    (first, one), (_, other) = await server.made(call_id=id_), await server.made(call_id=id_)
    first.must(one == other, "The same result both times, `duration` included.")


@check(29, GOOD, "A call id that comes with other input is refused", "Call Tool, call_id",
       "Compare the input: two calls under one id are a mistake of the caller's.", NEW)  # fmt: skip
async def one_id_two_calls(server: RestServer) -> None:
    call, id_ = server.allowed(), server.new_id()
    others = [each for each in server.calls if (each.tool, each.input) != (call.tool, call.input)]
    if not others:
        raise SkippedError("This takes a second --call with other input.")
    await server.make(call, call_id=id_)
    answer = await server.make(others[0], call_id=id_)
    _refused(server, answer, 400)


# Which version of which tool.


@check(30, MUST, "A tool that is not there is refused with 400", "Call Tool, Tool Version Resolution",
       "Answer 400 with a message, not 404 and not 200.", NEW)  # fmt: skip
async def unknown_tool(server: RestServer) -> None:
    _refused(server, await server.call("KitNowhere.NoSuchTool", {}), 400)


@check(31, MUST, "A version that is not there is refused with 400", "Call Tool, Tool Version Resolution",
       "Run exactly the version that is named, or none.", NEW)  # fmt: skip
async def unknown_version(server: RestServer) -> None:
    tool = (await _any_tool(server)).partition("@")[0]
    _refused(server, await server.call(f"{tool}@99999.0.0", {}), 400)


@check(32, MUST, "`@x` means x.0.0 and no other version", "Call Tool, Tool Version Resolution",
       "Do not take @1 for the newest 1.x.", NEW)  # fmt: skip
async def major_version(server: RestServer) -> None:
    listed = {str(each.get("id")) for each in await server.tools()}
    for each in sorted(listed):
        tool, _, version = each.partition("@")
        major = version.partition(".")[0]
        if version and f"{tool}@{major}.0.0" not in listed:
            _refused(server, await server.call(f"{tool}@{major}", {}), 400)
            return
    raise SkippedError("No tool is listed without the x.0.0 of its versions.")


@check(
    33,
    GOOD,
    "Ids that are none are refused with 400",
    "Call Tool, ToolId",
    "Match the whole id, with ASCII digits.",
    NEW,
)
async def malformed_ids(server: RestServer) -> None:
    tool = (await _any_tool(server)).partition("@")[0]
    for id_ in (f"{tool}@", f"{tool}@v1", f"{tool}@1.0.0-rc1", f"{tool}@1@2", f"{tool}\n", "", "NoDot"):
        _refused(server, await server.call(id_, {}), 400)


# Input that does not fit.


@check(
    40, MUST, "A missing argument is refused with 422", "Call Tool, Validation", "Validate before the tool runs.", NEW
)
async def missing_argument(server: RestServer) -> None:
    definition = await server.some_tool(lambda it: bool(_required(server, it)), "requires an argument")
    _refused(server, await server.call(definition["id"], {}), 422)


@check(
    41,
    MUST,
    "An argument of another type is refused with 422",
    "Call Tool, Validation",
    "Validate before the tool runs.",
    NEW,
)
async def wrong_type(server: RestServer) -> None:
    definition = await server.some_tool(lambda it: bool(_typed(server, it)), "has an argument that takes only one type")
    name = _typed(server, definition)[0]
    _refused(server, await server.call(definition["id"], {name: {"kit": []}}), 422)


@check(42, SHOULD, "`parameter_errors` names the arguments that are wrong", "Call Tool, ValidationErrorResponse",
       "Send an object of texts by parameter: models correct themselves by it.", NEW)  # fmt: skip
async def parameter_errors(server: RestServer) -> None:
    definition = await server.some_tool(lambda it: bool(_required(server, it)), "requires an argument")
    answer = await server.call(definition["id"], {})
    found = answer.member("parameter_errors")
    answer.must(isinstance(found, dict) and bool(found), "An object in `parameter_errors`.")
    answer.must(all(isinstance(each, str) for each in found.values()), "A text for each parameter.")


@check(
    43,
    MUST,
    "A body that is no JSON object is refused with 400",
    "Call Tool",
    "Answer 400, never 5xx, and never run.",
    NEW,
)
async def no_object(server: RestServer) -> None:
    for body in (b"{", b"[]", b'"x"', b"null", b"", b"\xff\xfe"):
        _refused(server, await server.post(body), 400)


@check(44, MUST, "Members of the wrong type are refused with 400", "Call Tool, CallToolRequest",
       "422 is for the input of the tool only.", NEW)  # fmt: skip
async def wrong_members(server: RestServer) -> None:
    tool = await _any_tool(server)
    wrong: tuple[dict[str, Any], ...] = (
        {"tool_id": 1},
        {"tool_id": tool, "input": []},
        {"tool_id": tool, "call_id": 1},
        {"input": {}},
    )
    for members in wrong:
        _refused(server, await server.post(server.form.request(members)), 400)


@check(
    45,
    GOOD,
    "A body nested five thousand times is refused without harm",
    "Call Tool",
    "Bound the depth that is read.",
    NEW,
)
async def deep_body(server: RestServer) -> None:
    tool = await _any_tool(server)
    nested = b"[" * DEPTH + b"]" * DEPTH
    request = json.dumps(server.form.request({"tool_id": tool, "input": {"kit": "@"}})).encode()
    answer = await server.post(request.replace(b'"@"', nested))
    answer.must(400 <= answer.status < 500, "A status of 4xx.")
    health = await server.client.send("GET", "/health")
    health.must(health.status == 200, "A server that goes on.")


@check(
    46, GOOD, "An argument of 256 KiB gets an answer below 500", "Call Tool", "Refuse what is too large with 4xx.", NEW
)
async def large_body(server: RestServer) -> None:
    answer = await server.call("KitNowhere.NoSuchTool", {"kit": "x" * LARGE})
    answer.must(answer.status < 500, "A status below 500.")


@check(47, GOOD, "Members that nobody knows are refused with 400", "Call Tool, CallToolRequest",
       "The request is a closed object: a member that is misspelled would be lost.", NEW)  # fmt: skip
async def unknown_members(server: RestServer) -> None:
    tool = await _any_tool(server)
    _refused(server, await server.call(tool, {}, kit_member=1), 400)


# Versions of the protocol.


@check(
    50, MUST, "A `$schema` of another version is refused with 400", "Versioning", "Compare the whole text.", ENVELOPED
)
async def other_schema(server: RestServer) -> None:
    tool = await _any_tool(server)
    for schema in ("otc://99.0", "urn:oxp:99.0", f"{server.form.schema}-evil", "", 1):
        body = server.form.request({"tool_id": tool, "input": {}}) | {"$schema": schema}
        answer = await server.post(body)
        answer.must(answer.status == 400, f"Status 400 for $schema {schema!r}.")


@check(
    51, MUST, "An `OXP-Version` of another version is refused with 400", "Versioning", "Compare the whole text.", HEADER
)
async def other_version(server: RestServer) -> None:
    tool = await _any_tool(server)
    for version in ("99", "1.1", "v1.0", "1.0-evil"):
        body = server.form.request({"tool_id": tool, "input": {}})
        answer = await server.post(body, headers={"oxp-version": version})
        answer.must(answer.status == 400, f"Status 400 for OXP-Version {version}.")
        _versioned(answer)


@check(
    52,
    MUST,
    "Without a version the latest is assumed",
    "Versioning",
    "Serve requests that name no version.",
    frozenset({"otc", "oxp", "oxp-env"}),
)
async def no_version(server: RestServer) -> None:
    call = server.allowed()
    context = {"context": call.context} if call.context else {}
    body = server.form.request({"tool_id": call.tool, "input": call.input, **context})
    body.pop("$schema", None)
    headers = {name: value for name, value in server.form.headers.items() if name != "oxp-version"}
    data = json.dumps(body).encode()
    answer = await server.client.send("POST", server.form.call_path, body=data, headers=headers)
    answer.must(answer.status == 200, "Status 200 for a call that names no version.")


# Refusals.


@check(
    60,
    MUST,
    "A refusal has a `message` in JSON",
    "Call Tool, ServerErrorResponse",
    "Say in a sentence what is wrong.",
    NEW,
)
async def refusals_speak(server: RestServer) -> None:
    answer = await server.call("KitNowhere.NoSuchTool", {})
    answer.must("json" in answer.headers.get("content-type", ""), "A content type of JSON.")
    answer.must(isinstance(answer.member("message"), str), "A text in `message`.")


@check(61, SHOULD, "No refusal shows what is inside", "Call Tool, ServerErrorResponse", "Keep stack traces in the log.")
async def refusals_hide(server: RestServer) -> None:
    for answer in (await server.call("KitNowhere.NoSuchTool", {}), await server.post(b"{"), await server.post(b"[1]")):
        text = answer.body.decode("utf-8", "replace")
        answer.must(not any(trace in text for trace in TRACES), "No stack trace.")


@check(62, GOOD, "Another method is refused with 405 or 404", "Call Tool", "Answer what is served, and nothing else.")
async def other_method(server: RestServer) -> None:
    answer = await server.client.send("PUT", server.form.call_path, headers=server.form.headers, body=b"{}")
    answer.must(answer.status in (404, 405), "Status 405.")


@check(
    63, GOOD, "A path that is not there is refused with 404", "Call Tool", "Answer what is served, and nothing else."
)
async def other_path(server: RestServer) -> None:
    answer = await server.client.send("GET", "/kit/nowhere", headers=server.form.headers)
    answer.must(answer.status == 404, "Status 404.")


# Credentials.


@check(
    70,
    MUST,
    "A request without a credential is refused with 401",
    "Security",
    "Ask for the credential on every path but /health.",
    NEW,
)
async def without_credential(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("The server asks for no credential, as far as was said.")
    data = json.dumps(server.form.request({"tool_id": "KitNowhere.NoSuchTool", "input": {}})).encode()
    for method, path, body in (("GET", "/tools", None), ("POST", server.form.call_path, data)):
        answer = await server.client.send(method, path, body=body, headers=server.form.headers, is_known=False)
        answer.must(answer.status == 401, "Status 401.")


@check(71, MUST, "A wrong credential is refused with 401", "Security", "Compare the whole credential.", NEW)
async def wrong_credential(server: RestServer) -> None:
    if not server.has_credential:
        raise SkippedError("The server asks for no credential, as far as was said.")
    headers = server.form.headers | {"authorization": "Bearer kit-wrong"}
    answer = await server.client.send("GET", "/tools", headers=headers, is_known=False)
    answer.must(answer.status == 401, "Status 401.")


# Requirements.


@check(
    80,
    MUST,
    "A call that lacks its user is refused with 400",
    "Tool Requirements",
    "Say user_id: true in missing_requirements.",
    NEW,
)
async def lacks_user(server: RestServer) -> None:
    answer = await _lacking(server, "user_id")
    missing = answer.member("missing_requirements")
    answer.must(
        isinstance(missing, dict) and missing.get("user_id") is True, "user_id: true in `missing_requirements`."
    )


@check(81, MUST, "A call that lacks an authorization is refused with a URL to open", "Tool Requirements",
       "List challenges with id and url in missing_requirements.authorization.", NEW)  # fmt: skip
async def lacks_authorization(server: RestServer) -> None:
    answer = await _lacking(server, "authorization")
    missing = answer.member("missing_requirements")
    asked = missing.get("authorization") if isinstance(missing, dict) else None
    entries = asked if isinstance(asked, list) else []
    answer.must(bool(entries), "A list in `missing_requirements.authorization`.")
    fits = all(
        isinstance(it, dict) and isinstance(it.get("id"), str) and isinstance(it.get("url"), str) for it in entries
    )
    answer.must(fits, "An id and a url in each challenge.")


@check(
    82, MUST, "A call that lacks a secret is refused with 400", "Tool Requirements", "Refuse it before it runs.", NEW
)
async def lacks_secret(server: RestServer) -> None:
    await _lacking(server, "secrets")


async def _lacking(server: RestServer, kind: str) -> Answer:
    """The refusal of an allowed call without what it requires of a kind. Raises SkippedError, UnfitError."""
    for call in server.calls:
        definition = next((it for it in await server.tools() if _is_meant(it, call.tool)), None)
        required = None if definition is None else definition.get("requirements")
        if not isinstance(required, dict) or not required.get(kind):
            continue
        context = {name: value for name, value in call.context.items() if name != kind}
        answer = await server.call(call.tool, call.input, **({"context": context} if context else {}))
        _refused(server, answer, 400)
        return answer
    raise SkippedError(f"No tool of a --call requires {kind}.")


# What checks have in common.


async def _any_tool(server: RestServer) -> str:
    """The id of any listed tool."""
    return str((await server.some_tool(lambda it: True, "is there"))["id"])


def _refused(server: RestServer, answer: Answer, status: int) -> None:
    answer.must(answer.status == status, f"Status {status}.")
    answer.must(isinstance(answer.member("message"), str), "A text in `message`.")
    if server.form.is_flat:
        _versioned(answer)


def _versioned(answer: Answer) -> None:
    answer.must(answer.headers.get("oxp-version", "") != "", "A header OXP-Version.")


def _is_meant(definition: Mapping[str, Any], tool: str) -> bool:
    id_ = str(definition.get("id"))
    return id_ == tool or id_.partition("@")[0] == tool


def _required(server: RestServer, definition: Mapping[str, Any]) -> list[str]:
    schema = server.form.input_schema(definition)
    found = schema.get("required") if isinstance(schema, dict) else None
    return found if isinstance(found, list) else []


def _typed(server: RestServer, definition: Mapping[str, Any]) -> list[str]:
    """The arguments of a definition that take one simple type."""
    schema = server.form.input_schema(definition)
    members = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(members, dict):
        return []
    simple = ("string", "number", "integer", "boolean")
    return [name for name, it in members.items() if isinstance(it, dict) and it.get("type") in simple]
