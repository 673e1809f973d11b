"""The scenarios that the scripted tool server plays, one per behaviour, in any dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from toolgate_conformance.clients.rest.stage import TOOL, ReceivedCall, Stage, Tool, request_in
from toolgate_conformance.clients.scripted import Reply, Request
from toolgate_conformance.servers.rest.forms import Form

INPUT = {"text": "hello", "count": 3}
VALUE = {"said": "hello", "times": 3}
CALL_PATHS = ("/tools/call", "/call")  # pages of each of the specifications name both
WRONG_PARAMETER = "has to be a number of sheets"  # to be found again in what a client prints
FOREIGN = {"kit_later": {"since": "2.0"}, "x-kit": [1, None]}  # members of a later version
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


def _echo(call: ReceivedCall) -> Reply:
    return call.stage.value(call, VALUE)


def _first(once: Callable[[ReceivedCall], Reply]) -> Callable[[ReceivedCall], Reply]:
    """Answers the first call in a way of its own, and each later one with the value."""
    return lambda call: once(call) if call.number == 1 else _echo(call)


class RestScenario(Struct, frozen=True):
    """How a tool server behaves, and what the client is to call."""

    tools: Sequence[Tool] = (Tool(),)
    tool: str = f"{TOOL}@1.0.0"
    input: Mapping[str, Any] = field(default_factory=lambda: INPUT)
    on_call: Callable[[ReceivedCall], Reply] = _echo
    on_list: Callable[[Stage, Sequence[Tool]], Reply] = Stage.listed
    path: str = ""  # of the URL that the client is given


def _slow(call: ReceivedCall) -> Reply:
    reply = _echo(call)
    return Reply(reply.status, reply.headers, reply.body, after_s=SLOW_S)


def _cut(call: ReceivedCall) -> Reply:
    reply = _echo(call)
    return Reply(reply.status, reply.headers, reply.body, is_cut=True)


def _moved(call: ReceivedCall) -> Reply:
    return call.stage.elsewhere(call.path)


def _challenge(call: ReceivedCall) -> Reply:
    url = call.stage.elsewhere_url
    asked = {"id": "kit-challenge", "url": url + AUTHORIZE, "check_url": url + STATUS}
    return call.stage.refusal(400, missing_requirements={"authorization": [asked]})


def _others() -> list[Tool]:
    """Tools that a client does not need, some with rare features."""
    of_nothing = Tool("KitOther.Nothing@1.0.0", {})
    recursive = Tool("KitOther.Tree@0.1.0", {"type": "object", "properties": {"next": {"$ref": "#"}}})
    strict = Tool("KitOther.Pick@2.0.0", {"oneOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]})
    needy = Tool("KitOther.Needy@1.0.0", requirements={"authorization": [{"id": "kit-x"}], "kit_other": [1]})
    many = [Tool(f"KitOther.Tool{number}@1.0.0") for number in range(200)]
    return [of_nothing, recursive, strict, needy, *many[:100], Tool(), *many[100:]]


REQUIRED = {"authorization": [{"id": ASKED_ACCESS}], "secrets": [{"id": ASKED_SECRET}]}
VERSIONS = tuple(Tool(f"{TOOL}@{version}") for version in ("2.0.0", "10.0.0", "9.1.0"))

SCENARIOS: Mapping[str, RestScenario] = {
    "plain": RestScenario(),
    "prefixed": RestScenario(path="/kit/v1"),
    "versions": RestScenario(VERSIONS, TOOL),
    "exact": RestScenario(VERSIONS, f"{TOOL}@2.0.0"),
    "integers": RestScenario(input=INTEGERS, on_call=lambda call: call.stage.value(call, INTEGERS)),
    "texts": RestScenario(input=TEXTS, on_call=lambda call: call.stage.value(call, TEXTS)),
    "null": RestScenario(on_call=lambda call: call.stage.value(call, None)),
    "foreign": RestScenario(
        (Tool(foreign=FOREIGN),),
        on_list=lambda stage, tools: stage.listed(tools, FOREIGN),
        on_call=lambda call: call.stage.value(call, VALUE, FOREIGN),
    ),
    "slow": RestScenario(on_call=_slow),
    "many": RestScenario(_others()),
    "empty": RestScenario(()),
    "unlisted": RestScenario(on_list=lambda stage, tools: stage.refusal(403)),
    "garbled": RestScenario(on_call=lambda call: Reply(200, {"content-type": "text/html"}, b"<p>Welcome")),
    "failed": RestScenario(on_call=lambda call: call.stage.failure(call, can_retry=False, retry_after_ms=10)),
    "failed-plainly": RestScenario(on_call=lambda call: call.stage.failure(call)),
    "refused": RestScenario(on_call=lambda call: call.stage.refusal(400)),
    "invalid": RestScenario(
        on_call=lambda call: call.stage.refusal(422, parameter_errors={"count": WRONG_PARAMETER}),
    ),
    "unauthorized": RestScenario(
        on_call=lambda call: call.stage.refusal(401, "No such credential", {"www-authenticate": "Bearer"}),
    ),
    "busy": RestScenario(on_call=_first(lambda call: call.stage.failure(call, can_retry=True, retry_after_ms=BUSY_MS))),
    "always-busy": RestScenario(on_call=lambda call: call.stage.failure(call, can_retry=True, retry_after_ms=10)),
    "limited": RestScenario(
        on_call=_first(lambda call: call.stage.refusal(429, headers={"retry-after": str(LIMITED_S)})),
    ),
    "broken": RestScenario(on_call=_first(lambda call: call.stage.refusal(500))),
    "reset": RestScenario(on_call=_first(lambda call: Reply(is_reset=True))),
    "cut": RestScenario(on_call=_first(_cut)),
    "moved-list": RestScenario(on_list=lambda stage, tools: stage.elsewhere("/tools")),
    "moved-call": RestScenario(on_call=_moved),
    "unrequired": RestScenario(),
    "required": RestScenario((Tool(requirements=REQUIRED),)),
    "required-failed": RestScenario((Tool(requirements=REQUIRED),), on_call=lambda call: call.stage.failure(call)),
    "required-moved": RestScenario((Tool(requirements=REQUIRED),), on_call=_moved),
    "challenge": RestScenario((Tool(requirements=REQUIRED),), on_call=_challenge),
}


class RestScript:
    """Plays a scenario: answers requests, and counts calls."""

    def __init__(self, scenario: RestScenario, form: Form) -> None:
        self._scenario = scenario
        self._form = form
        self._calls = 0
        self.elsewhere_url = ""  # once it is known

    def path_of(self, request: Request) -> str:
        """The path relative to the URL, or to the dialect's name below it, as with a gateway; empty for others."""
        before = "" if request.is_elsewhere else self._scenario.path
        if not request.path.startswith(before):
            return ""
        path = request.path.removeprefix(before)
        return path.removeprefix(f"/{self._form.name}")

    def answer(self, request: Request) -> Reply:
        stage, path = Stage(self._form, self.elsewhere_url), self.path_of(request)
        match request.method, path:
            case "GET", "/tools":
                # The other origin answers as a tool server, so that a client that goes there sends all it has.
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
            return _echo(ReceivedCall(stage, 1, members, path))
        if not any(_means(members["tool_id"], each) for each in self._scenario.tools):
            return stage.refusal(400, "There is no such tool.")
        self._calls += 1
        return self._scenario.on_call(ReceivedCall(stage, self._calls, members, path))


def _means(tool_id: str, tool: Tool) -> bool:
    name, _, version = tool_id.partition("@")
    its_name, _, its_version = tool.id.partition("@")
    is_named = name in (its_name, its_name.replace(".", "_"))  # the LangChain form also goes by names
    return is_named and version in ("", its_version, its_version.partition(".")[0])
