"""An RCRT server without its runner: tokens, breadcrumbs and the event stream.

Follows RCRT's server as of November 2025. Every breadcrumb that is stored here has the tag `toolgate-kit` and a time to
live, and is deleted at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from msgspec import Struct

from toolgate_conformance.checks import SkippedError, UnfitError
from toolgate_conformance.http import Answer, Client
from toolgate_conformance.servers.rcrt.events import Recording, recording

OWNER_ID = "00000000-0000-0000-0000-000000000001"  # the tenant of a server as it is shipped
AGENT_ID = "6f1c2b9e-4a0d-4e0e-9d0b-2f6f0a1b7c11"
ROLES = ["emitter", "subscriber"]
JSON = {"content-type": "application/json"}
NOTE = "toolgate.kit.v1"  # the schema of breadcrumbs that start no tool
KIT = "toolgate-kit"
UNISSUED = (404, 503)  # statuses of a server that issues no tokens
CRUMB_LIFE = timedelta(hours=1)


class Limits(Struct, frozen=True):
    """How long the checks wait."""

    event_s: float = 5.0  # for an event about what was stored
    first_ping_s: float = 2.5  # for the ping at the start of a stream, half of the time between two pings
    response_s: float = 30.0  # for the response to a request
    ping_s: float = 12.0  # for the next ping; there is one every 5 s
    quiet_s: float = 1.5  # to see that nothing comes, or nothing more
    absent_s: float = 20.0  # at most, to see that no tool runs
    poll_s: float = 0.5  # between looks at the list, for a response whose event was lost


class Store:
    """The server under test. `headers` go with each request; without a token in them, one is requested."""

    def __init__(
        self, client: Client, headers: Mapping[str, str], owner_id: str | None, agent_id: str | None, limits: Limits
    ) -> None:
        self.client = client
        self.owner_id = owner_id or OWNER_ID
        self.agent_id = agent_id or AGENT_ID
        self.limits = limits
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(20.0, read=None), trust_env=False)
        self._streams = AsyncExitStack()
        self._shared: Recording | None = None
        self._token: dict[str, str] | None = None
        self._stored: list[str] = []
        self._ids = itertools.count(1)

    async def aclose(self) -> None:
        """Deletes what was stored, as long as the server answers."""
        with contextlib.suppress(UnfitError, SkippedError):
            for crumb_id in self._stored:
                await self.send("DELETE", f"/breadcrumbs/{crumb_id}")
        await self._streams.aclose()
        await self._http.aclose()

    # Tokens.

    async def mint(self, **members: Any) -> Answer:
        """Requests a token; `members` replace those of the identity."""
        identity = {"owner_id": self.owner_id, "agent_id": self.agent_id, "roles": ROLES, "ttl_sec": 3600}
        return await self._post("/auth/token", identity | members)

    async def minted(self, **members: Any) -> Answer:
        """The answer to a request for a token. Raises SkippedError if the server issues none."""
        answer = await self.mint(**members)
        if answer.status in UNISSUED:
            raise SkippedError(f"The server issues no tokens: {answer.status}.")
        return answer

    async def credentials(self, **members: Any) -> dict[str, str]:
        """The header that authenticates an identity; empty if the server issues no tokens. Raises SkippedError."""
        if "authorization" in self._headers and not members:
            return {}  # the client sends it
        answer = await self.mint(**members)
        if answer.status in UNISSUED:
            return {}
        try:
            token = answer.member("token")
        except UnfitError:
            token = None
        if answer.status != 200 or not isinstance(token, str):  # which is a check of its own
            raise SkippedError(f"The server issued no token: {answer.status}.")
        return {"authorization": f"Bearer {token}"}

    async def token(self) -> str:
        """Our own token. Raises SkippedError if none is needed."""
        header = {**self._headers, **await self._own()}.get("authorization", "")
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise SkippedError("The server issues no tokens.")
        return token

    async def _own(self) -> dict[str, str]:
        if self._token is None:
            self._token = await self.credentials()
        return self._token

    # Breadcrumbs.

    def new_id(self) -> str:
        """A request id that no other request has."""
        return f"kit-{uuid.uuid4()}-{next(self._ids)}"

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Sends a request with our token: bytes unchanged, anything else as JSON."""
        fields = {**(JSON if body is not None else {}), **await self._own(), **_fields(headers)}
        return await self.client.send(method, path, body=_encoded(body), headers=fields)

    async def send_unauthenticated(self, method: str, path: str, body: Any = None) -> Answer:
        """Sends a request without any credentials; a breadcrumb that it creates is deleted at the end."""
        headers = JSON if body is not None else {}
        return self._noted(await self.client.send(method, path, body=_encoded(body), headers=headers, is_known=False))

    async def _post(self, path: str, body: Any) -> Answer:
        return await self.client.send("POST", path, body=_encoded(body), headers=JSON)

    def draft(self, **members: Any) -> dict[str, Any]:
        """A breadcrumb that starts no tool; its last tag is unique."""
        ends = (datetime.now(UTC) + CRUMB_LIFE).isoformat(timespec="seconds").replace("+00:00", "Z")
        basis = {"schema_name": NOTE, "title": "conformance", "context": {"kit": 1}, "ttl": ends}
        return basis | {"tags": [KIT, self.new_id()]} | members

    async def create(self, draft: Any, **headers: str) -> Answer:
        """Stores a breadcrumb, which is deleted at the end."""
        return self._noted(await self.send("POST", "/breadcrumbs", draft, **headers))

    def _noted(self, answer: Answer) -> Answer:
        """Remembers the breadcrumb that an answer says was stored."""
        if (crumb_id := _id_in(answer)) is not None:
            self._stored.append(crumb_id)
        return answer

    async def created(self, draft: Any, **headers: str) -> tuple[str, Answer]:
        """The id of a new breadcrumb. Raises SkippedError if it was refused."""
        answer = await self.create(draft, **headers)
        crumb_id = _id_in(answer)
        if crumb_id is None:  # which is a check of its own
            raise SkippedError(f"Breadcrumbs cannot be created: {answer.status}.")
        return crumb_id, answer

    async def read(self, crumb_id: str) -> Answer:
        """Reads the whole record of a breadcrumb."""
        return await self.send("GET", f"/breadcrumbs/{crumb_id}/full")

    async def record(self, crumb_id: str) -> tuple[dict[str, Any], Answer]:
        """The whole record of an existing breadcrumb. Raises UnfitError."""
        answer = await self.read(crumb_id)
        return record_in(answer)

    async def entries(self, **query: Any) -> tuple[list[dict[str, Any]], Answer]:
        """The entries of a list. Raises UnfitError."""
        answer = await self.send("GET", f"/breadcrumbs?{httpx.QueryParams(query)}")
        answer.must(answer.status == 200, "Status 200 for a list.")
        document = answer.document
        fits = isinstance(document, list) and all(isinstance(entry, dict) for entry in document)
        answer.must(fits, "A list of objects.")
        return document, answer

    # Events.

    @asynccontextmanager
    async def stream(self, **credentials: str) -> AsyncIterator[Recording]:
        """Opens a stream of its own. Streams cost the server; most checks share one."""
        headers = self._headers | (credentials or await self._own())
        async with recording(self._http, self.client.url, headers) as stream:
            yield stream

    @asynccontextmanager
    async def stream_by_query(self) -> AsyncIterator[Recording]:
        """Opens a stream with our token in the query in place of the header. Raises SkippedError."""
        headers = {name: value for name, value in self._headers.items() if name != "authorization"}
        async with recording(self._http, self.client.url, headers, access_token=await self.token()) as stream:
            yield stream

    async def shared(self) -> Recording:
        """The stream that checks share, whatever its status; opened again if it has ended. Raises UnfitError."""
        if self._shared is None or self._shared.has_ended:
            await self._streams.aclose()
            self._shared = await self._streams.enter_async_context(self.stream())
            await self._shared.wait(bool, self.limits.event_s)  # until then a replica may not have subscribed
        return self._shared

    async def events(self) -> Recording:
        """The shared stream. Raises SkippedError if it cannot be opened."""
        try:
            stream = await self.shared()
        except UnfitError as exc:
            raise SkippedError("The event stream cannot be opened.") from exc
        if stream.status != 200:  # which is a check of its own
            raise SkippedError(f"The event stream cannot be opened: {stream.status}.")
        return stream


def record_in(answer: Answer) -> tuple[dict[str, Any], Answer]:
    """The record in an answer. Raises UnfitError."""
    answer.must(answer.status == 200, "Status 200 for an existing breadcrumb.")
    document = answer.document
    answer.must(isinstance(document, dict), "An object.")
    return document, answer


def _id_in(answer: Answer) -> str | None:
    try:
        found = answer.member("id")
    except UnfitError:
        return None
    return found if answer.status < 300 and isinstance(found, str) else None


def _encoded(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body, ensure_ascii=False).encode()


def _fields(headers: Mapping[str, str]) -> dict[str, str]:
    """Header names, from the names of arguments."""
    return {name.replace("_", "-"): value for name, value in headers.items()}
