"""A caller of the gateway in any dialect; the oracle judges every answer before a test sees it.

How each dialect writes a call and where it puts the result is said here once more, apart from the gateway's own
codecs: OTC 1.0 and OXP 1.0 (Call Tool, List Tools), the RFC (sections 4 and 5), the LangChain family as it runs.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from tests import oracle
from tests.oracle import Operation

DIALECTS = ("rfc", "otc", "oxp", "oxp-env", "lc")
SCHEMAS = {
    "rfc": "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json",
    "otc": "otc://1.0",
    "oxp-env": "urn:oxp:1.0",
    "lc": "otc://1.0",
}
ENVELOPED = tuple(SCHEMAS)
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
every_enveloped_dialect = pytest.mark.parametrize("dialect", ENVELOPED)

Headers = Mapping[str, str] | Sequence[tuple[str, str]]
Content = bytes | AsyncIterable[bytes]


@dataclass(frozen=True)
class Answer:
    """What came back, and where its dialect keeps things."""

    dialect: str
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def result(self) -> dict[str, Any]:
        """The CallToolResponse, out of whatever wraps it."""
        assert self.status in (200, 202), self.body
        document: dict[str, Any] = self.document
        match self.dialect:
            case "rfc":
                output: dict[str, Any] = document["output"]
                return document | output
            case "otc" | "oxp-env":
                result: dict[str, Any] = document["result"]
                return result
            case _:
                return document

    @property
    def value(self) -> Any:
        result = self.result
        assert result["success"] is True, self.body
        return result["value"]

    @property
    def error(self) -> dict[str, Any]:
        result = self.result
        assert result["success"] is False, self.body
        error: dict[str, Any] = result["error"]
        return error

    @property
    def message(self) -> str:
        """Of a refusal."""
        assert self.status >= 400, self.body
        return str(self.document["message"])

    @property
    def missing(self) -> Any:
        """The `missing_requirements` of a refusal, or None."""
        return self.document.get("missing_requirements")

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions of a list, as the dialect writes them."""
        assert self.status == 200, self.body
        member = {"rfc": "tools", "otc": "tools", "oxp": "items", "oxp-env": "items", "lc": None}[self.dialect]
        found: list[dict[str, Any]] = self.document if member is None else self.document[member]
        return found

    @property
    def ids(self) -> list[str]:
        return [tool["id"] for tool in self.tools]


def call_body(dialect: str, request: Any, schema: Any = None) -> Any:
    """The body of a call, with the `$schema` of an enveloped one if there is to be one."""
    if dialect == "oxp":
        return request
    return {"request": request} if schema is None else {"$schema": schema, "request": request}


@dataclass(frozen=True)
class Caller:
    """Speaks to one gateway, with one bearer token or none."""

    http: httpx.AsyncClient
    token: str | None = None

    def with_token(self, token: str | None) -> Caller:
        return replace(self, token=token)

    async def call(
        self, dialect: str, tool_id: str, arguments: Any = None, *, headers: Headers = (), **members: Any
    ) -> Answer:
        """Calls a tool under the dialect's prefix; `members` are further ones of the request."""
        request = {"tool_id": tool_id, "input": {} if arguments is None else arguments, **members}
        return await self.post(dialect, f"/{dialect}/tools/call", call_body(dialect, request), headers=headers)

    async def post(self, dialect: str, path: str, body: Any, *, headers: Headers = ()) -> Answer:
        """Sends any JSON as a call."""
        return await self.send(dialect, "call", "POST", path, headers=headers, content=json.dumps(body).encode())

    async def list(self, dialect: str, path: str | None = None, *, headers: Headers = (), body: Any = None) -> Answer:
        content = b"" if body is None else json.dumps(body).encode()
        path = f"/{dialect}/tools" if path is None else path
        return await self.send(dialect, "list", "GET", path, headers=headers, content=content)

    async def send(
        self,
        dialect: str,
        operation: Operation,
        method: str,
        path: str,
        *,
        headers: Headers = (),
        content: Content = b"",
    ) -> Answer:
        """Sends anything; `dialect` is the one the answer must be in, `bare` for a refusal before there is one.

        A header given here takes the place of the usual one; an empty text leaves it out.
        """
        given = list(headers.items() if isinstance(headers, Mapping) else headers)
        named = {name.lower() for name, _ in given}
        usual = {"accept-encoding": "identity", "content-type": "application/json"}
        if self.token is not None:
            usual["authorization"] = f"Bearer {self.token}"
        fields = [(name, value) for name, value in usual.items() if name not in named]
        fields += [(name, value) for name, value in given if value or name not in usual]
        request = self.http.build_request(method, path, headers=fields, content=content)
        reply = await self.http.send(request)
        oracle.check(dialect, operation, reply.status_code, dict(reply.headers), reply.content)
        return Answer(dialect, reply.status_code, reply.headers, reply.content)
