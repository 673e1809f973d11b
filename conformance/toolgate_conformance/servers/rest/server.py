"""The tool server under test: what the kit knows of it, and the requests that checks send to it."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain, count
from typing import Any

from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import NEEDS_CALL, SkippedError, UnfitError
from toolgate_conformance.http import Answer, Client
from toolgate_conformance.servers.rest.forms import Form
from toolgate_conformance.servers.rest.tools import Definition, definition_for, required_arguments, requirements_of

NOWHERE = "KitNowhere.NoSuchTool"


class RestServer:
    """The server under test, and what is known of it: its tools once they were listed, and calls that may run."""

    def __init__(self, client: Client, form: Form, calls: Sequence[ToolCall]) -> None:
        self.client = client
        self.form = form
        self.calls = calls
        self._listed: list[dict[str, Any]] | None = None
        self._run = uuid.uuid4().hex[:12]  # a server may still know the ids of an earlier run
        self._ids = count(1)

    @property
    def has_credential(self) -> bool:
        """Whether requests carry a credential."""
        return bool(self.client.headers)

    def new_id(self) -> str:
        """A `call_id` that no other call has."""
        return f"kit-{self._run}-{next(self._ids)}"

    # The list of tools.

    async def list_tools(self, **more: Any) -> Answer:
        """Asks for the list; with a body where the dialect states its version in one."""
        headers = {**self.form.headers, **more.pop("headers", {})}
        body = more.pop("body", None)
        if body is None and self.form.schema is not None:
            body = json.dumps({"$schema": self.form.schema}).encode()
        if body is None:
            headers.pop("content-type")
        return await self.client.send("GET", "/tools", headers=headers, body=body, **more)

    async def tools(self) -> list[dict[str, Any]]:
        """The definitions in the list, which is asked for once. Raises SkippedError where there is no list to read."""
        if self._listed is None:
            answer = await self.list_tools()
            try:
                document = answer.document
            except UnfitError as exc:
                raise SkippedError("The list of tools cannot be read.") from exc
            member = self.form.list_member
            listed = document if member is None else document.get(member) if isinstance(document, dict) else None
            if answer.status != 200 or not isinstance(listed, list):
                raise SkippedError("The list of tools cannot be read.")
            self._listed = [each for each in listed if isinstance(each, dict)]
        return self._listed

    # Calls that may run.

    def allowed(self) -> ToolCall:
        """The first call that may run. Raises SkippedError."""
        if not self.calls:
            raise SkippedError(NEEDS_CALL)
        return self.calls[0]

    async def call(self, tool: str, arguments: Any, **members: Any) -> Answer:
        """Calls a tool. `arguments` None leaves the input out."""
        request = {"tool_id": tool} | ({} if arguments is None else {"input": arguments}) | members
        return await self.post(self.form.request(request))

    async def make(self, call: ToolCall, **members: Any) -> Answer:
        """Makes a call with its own input and context."""
        return await self.post(self.form.request(members_of(call) | members))

    async def post(self, body: Any, **more: Any) -> Answer:
        """Sends a body to where calls are made: bytes as they are, all else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        headers = {**self.form.headers, **more.pop("headers", {})}
        return await self.client.send("POST", self.form.call_path, body=data, headers=headers, **more)

    async def made(self, **members: Any) -> tuple[Answer, dict[str, Any]]:
        """The answer to the allowed call, and the result in it. Raises SkippedError."""
        answer = await self.make(self.allowed(), **members)
        if answer.status != 200:  # which is a check of its own
            raise SkippedError(f"The call of --call is answered with {answer.status}.")
        try:
            return answer, self.form.result(answer)
        except UnfitError as exc:  # which is a check of its own
            raise SkippedError("The result of the call of --call cannot be read.") from exc

    async def succeeded(self, **members: Any) -> tuple[Answer, dict[str, Any]]:
        """As `made`, for checks of results of tools that do not fail. Raises SkippedError."""
        answer, result = await self.made(**members)
        if result.get("success") is False:
            raise SkippedError("The tool of the first --call fails.")
        return answer, result

    async def failed(self) -> AsyncIterator[tuple[Answer, dict[str, Any]]]:
        """The answers to allowed calls whose tools fail, each with its result. Raises UnfitError, SkippedError."""
        self.allowed()
        found = False
        for call in self.calls:
            answer = await self.make(call, call_id=self.new_id())
            answer.must(answer.status < 500, "Status 200, even if the tool fails.")
            result = self._result_in(answer)
            if result.get("success") is False:
                found = True
                yield answer, result
        if not found:
            raise SkippedError("No tool of a --call fails.")

    def _result_in(self, answer: Answer) -> dict[str, Any]:
        """The result in an answer; empty if there is none, which is a check of its own."""
        try:
            return self.form.result(answer) if answer.status == 200 else {}
        except UnfitError:
            return {}

    # Calls that a server which conforms does not run.

    async def probe(self) -> ToolCall:
        """A call to spoil in one way: the allowed one, or one that also lacks an argument.

        So nothing runs without leave, not even on a server that overlooks what is wrong. Raises SkippedError.
        """
        return self.calls[0] if self.calls else await self.incomplete()

    async def incomplete(self, suits: Callable[[Definition], bool] = lambda it: True) -> ToolCall:
        """A call without an argument that its tool requires. Raises SkippedError."""
        return await self.invalid(
            lambda it: {} if required_arguments(self.form, it) and suits(it) else None,
            "has a required argument, and otherwise requires nothing",
        )

    async def invalid(self, spoil: Callable[[Definition], Mapping[str, Any] | None], what: str) -> ToolCall:
        """A call that lacks nothing but valid input, which `spoil` makes; None passes over a tool.

        A call without what its tool requires, such as a user, might be refused for that. Raises SkippedError.
        """
        tools = await self.tools()
        lent = ((definition_for(tools, call.tool) or {}, call.context) for call in self.calls)
        for definition, context in chain(((it, {}) for it in tools), lent):
            is_complete = requirements_of(definition).keys() <= context.keys()
            if is_complete and isinstance(definition.get("id"), str):
                arguments = spoil(definition)
                if arguments is not None:
                    return ToolCall(definition["id"], arguments, context)
        raise SkippedError(f"No listed tool {what}.")

    async def definition(self, call: ToolCall) -> Definition | None:
        """The definition of the tool that a call finds. Raises SkippedError."""
        return definition_for(await self.tools(), call.tool)


@asynccontextmanager
async def rest_subject(
    form: Form, url: str, headers: Mapping[str, str], calls: Sequence[ToolCall]
) -> AsyncIterator[RestServer]:
    """The server at a URL; `headers` hold the credentials, if there are any."""
    client = Client(url, headers)
    try:
        yield RestServer(client, form, calls)
    finally:
        await client.aclose()


def members_of(call: ToolCall) -> dict[str, Any]:
    """The members of a request for a call."""
    return {"tool_id": call.tool, "input": call.input} | ({"context": call.context} if call.context else {})
