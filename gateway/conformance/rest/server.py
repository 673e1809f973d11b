"""A tool server of one of the dialects of OTC and OXP, as the checks ask it."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gateway.conformance.checks import NEEDS_CALL, SkippedError
from gateway.conformance.http import Answer, Client

JSON = {"content-type": "application/json", "accept": "application/json"}
RFC_SCHEMA = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"


class Form(Struct, frozen=True):
    """How a dialect writes requests and answers.

    `schema` is its `$schema`; without one there is none. `is_flat`: the request is the body itself, and the version
    goes in a header. `list_member` holds the tools in a list; None: the list is the body.
    """

    name: str
    prefix: str  # of the ids of its checks
    source: str
    call_path: str
    schema: str | None
    list_member: str | None
    is_flat: bool = False
    result_member: str | None = "result"  # holds the answer to a call; None: it is the body

    def request(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a call."""
        if self.is_flat:
            return dict(members)
        return ({} if self.schema is None else {"$schema": self.schema}) | {"request": dict(members)}

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return JSON | ({"oxp-version": "1.0"} if self.is_flat else {})

    def result(self, answer: Answer) -> dict[str, Any]:
        """The answer to a call, out of what wraps it. Raises UnfitError."""
        document = answer.document if self.result_member is None else answer.member(self.result_member)
        where = "the body" if self.result_member is None else f"`{self.result_member}`"
        answer.must(isinstance(document, dict), f"An object in {where}.")
        found: dict[str, Any] = document
        return found

    def outcome(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """What holds `value` or `error`: `output` in the RFC, else the result itself."""
        output = result.get("output")
        return output if self.name == "rfc" and isinstance(output, dict) else result

    def input_schema(self, definition: Mapping[str, Any]) -> Any:
        """The JSON Schema of the arguments in a definition."""
        if self.name == "rfc":
            return (definition.get("input") or {}).get("parameters", {})
        schema = definition.get("input_schema")
        return schema.get("parameters") if self.name == "otc" and isinstance(schema, dict) else schema


FORMS = {
    form.name: form
    for form in (
        Form("otc", "OTC", "OTC 1.0", "/tools/call", "otc://1.0", "tools"),
        Form("rfc", "RFC", "OTC RFC", "/call", RFC_SCHEMA, "tools", result_member=None),
        Form("oxp", "OXP", "OXP 1.0", "/tools/call", None, "items", is_flat=True, result_member=None),
        Form("oxp-env", "ENV", "OXP 1.0, enveloped", "/tools/call", "urn:oxp:1.0", "items"),
        Form("lc", "LC", "LangChain form", "/tools/call", None, None, result_member=None),
    )
}


class ToolCall(Struct, frozen=True):
    """A call that its operator allows: the tool, its input, and what goes with it."""

    tool: str
    input: Mapping[str, Any]
    context: Mapping[str, Any] = {}


class RestServer:
    """The server under test, and what is known of it: its tools once they were listed, and calls that may be made."""

    def __init__(self, client: Client, form: Form, calls: Sequence[ToolCall], *, has_credential: bool) -> None:
        self.client = client
        self.form = form
        self.calls = calls
        self.has_credential = has_credential
        self._listed: list[dict[str, Any]] | None = None
        self._run = secrets.token_hex(8)
        self._ids = itertools.count(1)

    def new_id(self) -> str:
        """An id for a call that no other call has, also of an earlier run."""
        return f"kit-{self._run}-{next(self._ids)}"

    async def list_tools(self, **more: Any) -> Answer:
        """Asks for the list, in the way of the dialect."""
        headers = {**self.form.headers, **more.pop("headers", {})}
        body = more.pop("body", None)
        if body is None and self.form.schema is not None:
            body = json.dumps({"$schema": self.form.schema}).encode()
        if body is None:
            headers.pop("content-type")
        return await self.client.send("GET", "/tools", headers=headers, body=body, **more)

    async def tools(self) -> list[dict[str, Any]]:
        """The definitions in the list, asked for once. Raises SkippedError where there is no list to read."""
        if self._listed is None:
            answer = await self.list_tools()
            try:
                document = answer.document
            except Exception as exc:
                raise SkippedError("The list of tools cannot be read.") from exc
            member = self.form.list_member
            listed = document if member is None else document.get(member) if isinstance(document, dict) else None
            if answer.status != 200 or not isinstance(listed, list):
                raise SkippedError("The list of tools cannot be read.")
            self._listed = [each for each in listed if isinstance(each, dict)]
        return self._listed

    async def some_tool(self, fits: Callable[[Mapping[str, Any]], bool], what: str) -> dict[str, Any]:
        """A listed tool for which something is so. Raises SkippedError."""
        for definition in await self.tools():
            if isinstance(definition.get("id"), str) and fits(definition):
                return definition
        raise SkippedError(f"No listed tool {what}.")

    def allowed(self) -> ToolCall:
        """A call that may be made. Raises SkippedError."""
        if not self.calls:
            raise SkippedError(NEEDS_CALL)
        return self.calls[0]

    async def call(self, tool: str, arguments: Any, **members: Any) -> Answer:
        """Makes a call. `arguments` None leaves the input out."""
        request = {"tool_id": tool} | ({} if arguments is None else {"input": arguments}) | members
        return await self.post(self.form.request(request))

    async def make(self, call: ToolCall, **members: Any) -> Answer:
        """Makes a call that is allowed."""
        return await self.call(call.tool, call.input, **({"context": call.context} if call.context else {}), **members)

    async def post(self, body: Any, **more: Any) -> Answer:
        """Sends a body to where calls are made: bytes as they are, all else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        headers = {**self.form.headers, **more.pop("headers", {})}
        return await self.client.send("POST", self.form.call_path, body=data, headers=headers, **more)

    async def made(self, **members: Any) -> tuple[Answer, dict[str, Any]]:
        """The answer to a call that is allowed, and the result in it. Raises UnfitError, SkippedError."""
        answer = await self.make(self.allowed(), **members)
        if answer.status != 200:  # which is a check of its own
            raise SkippedError(f"The call of --call is answered with {answer.status}.")
        return answer, self.form.result(answer)
