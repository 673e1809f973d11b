"""The tool server under test: what the kit knows of it, and the requests that checks send to it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.conformance.calls import ToolCall
from gateway.conformance.checks import NEEDS_CALL, SkippedError
from gateway.conformance.http import Answer, Client
from gateway.conformance.rest.forms import Form


class RestServer:
    """The server under test, and what is known of it: its tools once they were listed, and calls that may be made."""

    def __init__(self, client: Client, form: Form, calls: Sequence[ToolCall], *, has_credential: bool) -> None:
        self.client = client
        self.form = form
        self.calls = calls
        self.has_credential = has_credential
        self._listed: list[dict[str, Any]] | None = None
        self._ids = itertools.count(1)

    def new_id(self) -> str:
        """An id for a call that no other call has."""
        return f"kit-{id(self):x}-{next(self._ids)}"

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
