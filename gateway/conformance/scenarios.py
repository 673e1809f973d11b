"""What the scripted tool server does to clients: one scenario for each behaviour, written in any dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from gateway.conformance.rest import Form
from gateway.conformance.scripted import Reply, Request

TOOL = "KitSums.Echo"
INPUT = {"text": "hello", "count": 3}
VALUE = {"said": "hello", "times": 3}
ANY_OBJECT = {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}
CALL_PATHS = ("/tools/call", "/call")  # pages of each of the specifications name both
SAYING = "The kit has no more paper"  # messages, to be found again in what a client shows
WRONG_PARAMETER = "has to be a number of sheets"
FOREIGN = {"kit_later": {"since": "2.0"}, "x-kit": [1, None]}  # members of a version to come
ASKED_SECRET, OTHER_SECRET = "KIT_ASKED", "KIT_OTHER"
ASKED_ACCESS, OTHER_ACCESS = "kit-asked", "kit-other"
SLOW_S = 2.0
BUSY_MS = 700
LIMITED_S = 1
INTEGERS = {"above": 2**53 + 1, "below": -(2**53) - 1, "large": 2**63 - 1}
TEXTS = {
    "scripts": "Zürich, Łódź, 東京, हिन्दी, שלום",
    "emoji": "👩‍🚀",
    "escapes": '"\\/\b\n\r\t',
    "nul": "a\u0000b",
    "": "é",
}
AUTHORIZE, STATUS = "/kit/authorize", "/kit/status"


class Tool(Struct, frozen=True):
    """A tool in the list."""

    id: str = f"{TOOL}@1.0.0"
    input_schema: Mapping[str, Any] = field(default_factory=lambda: ANY_OBJECT)
    requirements: Mapping[str, Any] | None = None
    foreign: Mapping[str, Any] = {}

    def definition(self, form: Form) -> dict[str, Any]:
        """As a dialect writes it."""
        name, _, version = self.id.partition("@")
        told: dict[str, Any] = {"id": self.id, "name": name.replace(".", "_"), "description": "Says it again."}
        if form.name == "rfc":
            told |= {
                "toolkit": {"name": name.partition(".")[0], "description": "Of the kit.", "version": version},
                "input": {"parameters": self.input_schema},
                "output": {"available_modes": ["value", "null", "error"], "value": {}},
            }
        else:
            schema = {"parameters": self.input_schema} if form.name == "otc" else self.input_schema
            told |= {"version": version, "input_schema": schema, "output_schema": {}}
        if self.requirements is not None:
            told["requirements"] = self.requirements
        return {**told, **self.foreign}


class Stage(Struct, frozen=True):
    """Where a scenario plays: writes answers in the dialect."""

    form: Form
    elsewhere_url: str

    def listed(self, tools: Sequence[Tool], foreign: Mapping[str, Any] = {}) -> Reply:
        definitions = [each.definition(self.form) for each in tools]
        if self.form.list_member is None:
            return self.reply(200, definitions)
        return self.reply(200, {**self._versioned(), self.form.list_member: definitions, **foreign})

    def value(self, call: Call, value: Any, foreign: Mapping[str, Any] = {}) -> Reply:
        """The tool has succeeded."""
        return self._result(call, success=True, outcome={"value": value}, foreign=foreign)

    def failure(self, call: Call, **error: Any) -> Reply:
        """The tool has failed."""
        outcome: dict[str, Any] = {"error": {"message": SAYING, **error}}
        if self.form.name == "lc":  # its programs read `value` whatever came
            outcome["value"] = None
        return self._result(call, success=False, outcome=outcome)

    def refusal(self, status: int, message: str = SAYING, headers: Mapping[str, str] = {}, **more: Any) -> Reply:
        body = self._versioned() | {"message": message} | more
        if self.form.name == "lc":
            body["detail"] = message
        return self.reply(status, body, headers)

    def reply(self, status: int, document: Any, headers: Mapping[str, str] = {}) -> Reply:
        fields = {"content-type": "application/json"} | ({"oxp-version": "1.0"} if self.form.is_flat else {})
        return Reply(status, {**fields, **headers}, json.dumps(document, ensure_ascii=False).encode())

    def elsewhere(self, path: str) -> Reply:
        """Sends the client to the other origin, where it is to repeat the request as it is."""
        return Reply(307, {"location": self.elsewhere_url + path})

    def _versioned(self) -> dict[str, Any]:
        return {} if self.form.schema is None else {"$schema": self.form.schema}

    def _result(self, call: Call, *, success: bool, outcome: dict[str, Any], foreign: Mapping[str, Any] = {}) -> Reply:
        result: dict[str, Any] = {"call_id": call.id, "success": success}
        if self.form.name != "lc":
            result["duration"] = 1.5
        told = {**outcome, **foreign}
        result |= {"output": told} if self.form.name == "rfc" else told
        member = self.form.result_member
        return self.reply(200, self._versioned() | (result if member is None else {member: result}))


class Call(Struct, frozen=True):
    """A call that came; `number` counts from 1."""

    stage: Stage
    number: int
    request: Mapping[str, Any]
    path: str

    @property
    def id(self) -> str:
        given = self.request.get("call_id")
        return given if isinstance(given, str) and given else f"kit-made-{self.number}"


def request_in(form: Form, request: Request) -> Mapping[str, Any] | None:
    """The request object of a call; None if the body has none."""
    document = request.document
    inner = document if form.is_flat or not isinstance(document, dict) else document.get("request")
    return inner if isinstance(inner, dict) else None


def _echo(call: Call) -> Reply:
    return call.stage.value(call, VALUE)


def _first(once: Callable[[Call], Reply]) -> Callable[[Call], Reply]:
    """The first call is answered so, and each later one with the value."""
    return lambda call: once(call) if call.number == 1 else _echo(call)


class Scenario(Struct, frozen=True):
    """A tool server of one behaviour, and what its client is to call."""

    tools: Sequence[Tool] = (Tool(),)
    tool: str = f"{TOOL}@1.0.0"
    input: Mapping[str, Any] = field(default_factory=lambda: INPUT)
    on_call: Callable[[Call], Reply] = _echo
    on_list: Callable[[Stage, Sequence[Tool]], Reply] = Stage.listed
    path: str = ""  # of the URL that the client is told


def _slow(call: Call) -> Reply:
    reply = _echo(call)
    return Reply(reply.status, reply.headers, reply.body, after_s=SLOW_S)


def _challenge(call: Call) -> Reply:
    url = call.stage.elsewhere_url
    asked = {"id": "kit-challenge", "url": url + AUTHORIZE, "check_url": url + STATUS}
    return call.stage.refusal(400, missing_requirements={"authorization": [asked]})


def _others() -> list[Tool]:
    """Tools that a client does not need, some with what few clients know."""
    of_nothing = Tool("KitOther.Nothing@1.0.0", {})
    recursive = Tool("KitOther.Tree@0.1.0", {"type": "object", "properties": {"next": {"$ref": "#"}}})
    strict = Tool("KitOther.Pick@2.0.0", {"oneOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]})
    needy = Tool("KitOther.Needy@1.0.0", requirements={"authorization": [{"id": "kit-x"}], "kit_other": [1]})
    many = [Tool(f"KitOther.Tool{number}@1.0.0") for number in range(200)]
    return [of_nothing, recursive, strict, needy, *many[:100], Tool(), *many[100:]]


REQUIRED = {"authorization": [{"id": ASKED_ACCESS}], "secrets": [{"id": ASKED_SECRET}]}
VERSIONS = tuple(Tool(f"{TOOL}@{version}") for version in ("2.0.0", "10.0.0", "9.1.0"))

SCENARIOS: Mapping[str, Scenario] = {
    "plain": Scenario(),
    "prefixed": Scenario(path="/kit/v1"),
    "versions": Scenario(VERSIONS, TOOL),
    "exact": Scenario(VERSIONS, f"{TOOL}@2.0.0"),
    "integers": Scenario(input=INTEGERS, on_call=lambda call: call.stage.value(call, INTEGERS)),
    "texts": Scenario(input=TEXTS, on_call=lambda call: call.stage.value(call, TEXTS)),
    "null": Scenario(on_call=lambda call: call.stage.value(call, None)),
    "foreign": Scenario(
        (Tool(foreign=FOREIGN),),
        on_list=lambda stage, tools: stage.listed(tools, FOREIGN),
        on_call=lambda call: call.stage.value(call, VALUE, FOREIGN),
    ),
    "slow": Scenario(on_call=_slow),
    "many": Scenario(_others()),
    "empty": Scenario(()),
    "garbled": Scenario(on_call=lambda call: Reply(200, {"content-type": "text/html"}, b"<p>Welcome")),
    "failed": Scenario(on_call=lambda call: call.stage.failure(call, can_retry=False, retry_after_ms=10)),
    "failed-plainly": Scenario(on_call=lambda call: call.stage.failure(call)),
    "refused": Scenario(on_call=lambda call: call.stage.refusal(400)),
    "invalid": Scenario(
        on_call=lambda call: call.stage.refusal(422, parameter_errors={"count": WRONG_PARAMETER}),
    ),
    "unauthorized": Scenario(
        on_call=lambda call: call.stage.refusal(401, "No such credential", {"www-authenticate": "Bearer"}),
    ),
    "busy": Scenario(on_call=_first(lambda call: call.stage.failure(call, can_retry=True, retry_after_ms=BUSY_MS))),
    "always-busy": Scenario(on_call=lambda call: call.stage.failure(call, can_retry=True, retry_after_ms=10)),
    "limited": Scenario(
        on_call=_first(lambda call: call.stage.refusal(429, headers={"retry-after": str(LIMITED_S)})),
    ),
    "broken": Scenario(on_call=_first(lambda call: call.stage.refusal(500))),
    "reset": Scenario(on_call=_first(lambda call: Reply(is_reset=True))),
    "moved-list": Scenario(on_list=lambda stage, tools: stage.elsewhere("/tools")),
    "moved-call": Scenario(on_call=lambda call: call.stage.elsewhere(call.path)),
    "unrequired": Scenario(),
    "required": Scenario((Tool(requirements=REQUIRED),)),
    "challenge": Scenario((Tool(requirements=REQUIRED),), on_call=_challenge),
}


class Script:
    """Plays a scenario: answers requests, and counts calls."""

    def __init__(self, scenario: Scenario, form: Form) -> None:
        self._scenario = scenario
        self._form = form
        self._calls = 0
        self.elsewhere_url = ""  # once it is known

    def path_of(self, request: Request) -> str:
        """The path below that of the URL; a gateway has each dialect below its name, too. Empty: it is not there."""
        before = "" if request.is_elsewhere else self._scenario.path
        if not request.path.startswith(before):
            return ""
        path = request.path.removeprefix(before)
        return path.removeprefix(f"/{self._form.name}")

    def answer(self, request: Request) -> Reply:
        stage, path = Stage(self._form, self.elsewhere_url), self.path_of(request)
        match request.method, path:
            case "GET", "/tools":
                # The other origin answers as a tool server: a client that goes there finds all it wants.
                return stage.listed([Tool()]) if request.is_elsewhere else self._listed(stage)
            case "POST", _ if path in CALL_PATHS:
                return self._answer_call(stage, request, path)
            case "GET", "/health":
                return stage.reply(200, {"status": "ok"})
            case "GET", "/kit/authorize" if request.is_elsewhere:
                return Reply(200, {"content-type": "text/html"}, b"<p>May the tool read your mail?")
            case "GET", "/kit/status" if request.is_elsewhere:
                return stage.reply(200, {"status": "failed"})
        return stage.refusal(404, "There is nothing here.")

    def _listed(self, stage: Stage) -> Reply:
        return self._scenario.on_list(stage, self._scenario.tools)

    def _answer_call(self, stage: Stage, request: Request, path: str) -> Reply:
        members = request_in(self._form, request)
        if members is None or not isinstance(members.get("tool_id"), str):
            return stage.refusal(400, "This is no call.")
        if request.is_elsewhere:
            return _echo(Call(stage, 1, members, path))
        if not any(_means(members["tool_id"], each) for each in self._scenario.tools):
            return stage.refusal(400, "There is no such tool.")
        self._calls += 1
        return self._scenario.on_call(Call(stage, self._calls, members, path))


def _means(tool_id: str, tool: Tool) -> bool:
    name, _, version = tool_id.partition("@")
    its_name, _, its_version = tool.id.partition("@")
    is_named = name in (its_name, its_name.replace(".", "_"))  # the LangChain form also goes by names
    return is_named and version in ("", its_version, its_version.partition(".")[0])
