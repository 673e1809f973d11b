"""How the scripted tool server writes lists, results and refusals in any dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from toolgate_conformance.clients.scripted import Reply, Request
from toolgate_conformance.servers.rest.forms import Form

TOOL = "KitSums.Echo"
ANY_OBJECT = {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}
SAYING = "The kit has no more paper"  # the message of a failure, to be found again in what a client prints


class Tool(Struct, frozen=True):
    """A tool in the list; `foreign` members are unknown to clients."""

    id: str = f"{TOOL}@1.0.0"
    input_schema: Mapping[str, Any] = field(default_factory=lambda: ANY_OBJECT)
    requirements: Mapping[str, Any] | None = None
    foreign: Mapping[str, Any] = {}

    def definition(self, form: Form) -> dict[str, Any]:
        """Its definition in a dialect."""
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
    """Writes answers in a dialect; `elsewhere_url` is the other origin."""

    form: Form
    elsewhere_url: str

    def listed(self, tools: Sequence[Tool], foreign: Mapping[str, Any] = {}) -> Reply:
        definitions = [each.definition(self.form) for each in tools]
        if self.form.list_member is None:
            return self.reply(200, definitions)
        return self.reply(200, {**self._versioned(), self.form.list_member: definitions, **foreign})

    def value(self, call: ReceivedCall, value: Any, foreign: Mapping[str, Any] = {}) -> Reply:
        """The tool has succeeded."""
        return self._result(call, success=True, outcome={"value": value}, foreign=foreign)

    def failure(self, call: ReceivedCall, **error: Any) -> Reply:
        """The tool has failed."""
        outcome: dict[str, Any] = {"error": {"message": SAYING, **error}}
        if self.form.name == "lc":  # its programs read `value` in any case
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
        """Redirects the client to the other origin, with the same method and body."""
        return Reply(307, {"location": self.elsewhere_url + path})

    def _versioned(self) -> dict[str, Any]:
        return {} if self.form.schema is None else {"$schema": self.form.schema}

    def _result(
        self, call: ReceivedCall, *, success: bool, outcome: dict[str, Any], foreign: Mapping[str, Any] = {}
    ) -> Reply:
        result: dict[str, Any] = {"call_id": call.id, "success": success}
        if self.form.name != "lc":
            result["duration"] = 1.5
        told = {**outcome, **foreign}
        result |= {"output": told} if self.form.name == "rfc" else told
        member = self.form.result_member
        return self.reply(200, self._versioned() | (result if member is None else {member: result}))


class ReceivedCall(Struct, frozen=True):
    """A call that was received; `number` counts from 1."""

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
