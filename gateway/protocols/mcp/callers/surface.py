"""The surface of MCP (Model Context Protocol): tools only, stateless, each request in the revision that it names.

Modern callers (2026-07-28) say in every request what they speak; legacy ones begin with `initialize` and may go on at
any replica. Methods of resources, prompts, completion and logging are not declared and do not exist here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec.structs import replace

from gateway.core.encoders import Encoder
from gateway.core.errors import ErrorCode, GatewayError, OtherOriginError
from gateway.core.model import Json, JsonObject, Selection
from gateway.core.ports import Caller
from gateway.core.surfaces import (
    CancelByRequest,
    Endpoint,
    Immediate,
    Opened,
    OpenedBatch,
    OpenedList,
    OpenedOverview,
    RefusedOpening,
)
from gateway.core.wire import Head, Headers, WireReply
from gateway.protocols.common import fields
from gateway.protocols.mcp.callers import tasks as mcp_tasks
from gateway.protocols.mcp.callers.answers import SERVER, McpEncoder, RpcError
from gateway.protocols.mcp.callers.auth import Protection, can_get_scopes
from gateway.protocols.mcp.callers.calls import CallReader, no_stream
from gateway.protocols.mcp.callers.consent import opens_urls
from gateway.protocols.mcp.callers.listen import open_listen
from gateway.protocols.mcp.callers.requests import (
    MAX_ID,
    MODERN_TEXT,
    RpcMessage,
    check_modern,
    is_id,
    needs_no_answer,
    version_of,
    version_of_head,
)
from gateway.protocols.mcp.callers.session_ids import Sealing, Session, SessionIds, owner_of
from gateway.protocols.mcp.callers.tools import LIST_TTL_MS, instructions_of
from gateway.protocols.mcp.wire import (
    BATCHED,
    INVALID,
    LAST_EVENT,
    LEGACY,
    MODERN,
    NO_METHOD,
    PARAMS,
    SESSION,
    TASKS,
    VERSION,
)

NAME_OF_DIALECT = "mcp"
JSON_TYPE = b"application/json"
MAX_BATCH = 20  # messages
CANCELLED = "notifications/cancelled"
ACCEPTED = WireReply(status=202)

ENCODERS: Mapping[tuple[str, str], Encoder] = {
    (NAME_OF_DIALECT, revision): McpEncoder(wire_version=revision) for revision in (MODERN, *LEGACY)
}


class McpSurface:
    """`POST /mcp`, and below it an endpoint for each toolkit; `surfaces.Surface`.

    `instructions` are for models, about all tools. `allows_page` says from which origins pages may call. With
    `lists_exact` input schemas are listed as they are validated. `versions` says which of each tool a list has. Calls
    become tasks after `task_after_s`; None: none do. `listens`: modern callers are told when the list of tools has
    changed, if they ask for that.
    """

    dialects = frozenset({NAME_OF_DIALECT})
    argument_members = (b"arguments",)
    encoders = ENCODERS

    def __init__(
        self,
        path: str,
        sealer: Sealing,
        consents: Sealing,
        *,
        instructions: str | None,
        stream_after_s: float,
        protection: Protection,
        allows_page: Callable[[bytes], bool],
        lists_exact: bool = False,
        versions: Literal["newest", "all"] = "newest",
        task_after_s: float | None = None,
        listens: bool = False,
    ) -> None:
        self._sessions = SessionIds(sealer)
        self._calls = CallReader(
            self._sessions, consents, protection, stream_after_s=stream_after_s, task_after_s=task_after_s
        )
        self._protection = protection
        self._allows_page = allows_page
        self._instructions = instructions or ""
        self._below = f"{path}/"
        self._is_exact = lists_exact
        self._versions: Literal["newest", "names"] = "names" if versions == "all" else "newest"
        self._capabilities: JsonObject = {"tools": {"listChanged": True} if listens else {}}
        if task_after_s is not None:
            self._capabilities["extensions"] = {TASKS: {}}
        endpoint = Endpoint(
            route=path,
            methods=("POST",),
            operation="call",
            dialect=NAME_OF_DIALECT,
            stream_after_s=stream_after_s,
            more_methods=("GET",),
            follows_oauth=True,
        )
        of_toolkit = f"{path}/{{toolkit}}"
        # Many servers of MCP have their endpoint at `/mcp/`, and many people write it so.
        with_slash = {} if path.endswith("/") else {f"{path}/": endpoint}
        below = {of_toolkit: replace(endpoint, route=of_toolkit)}
        self.endpoints: Mapping[str, Endpoint] = {path: endpoint, **with_slash, **below}
        self._modern: dict[str, Callable[[RpcMessage, Head], Opened]] = {
            "server/discover": self._discover,
            "tools/list": self._list,
            "tools/call": self._call,
        }
        if listens:
            self._modern["subscriptions/listen"] = self._listen
        if task_after_s is not None:
            self._modern |= dict.fromkeys(mcp_tasks.METHODS, self._follow_up)
        self._legacy: dict[str, Callable[[RpcMessage, Head], Opened]] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list,
            "tools/call": self._call,
        }

    def check_head(self, head: Head) -> None:
        """Raises FORBIDDEN for a page of a foreign origin, UNSUPPORTED_MEDIA for a body that is not plain JSON.

        And METHOD_NOT_ALLOWED for a GET that does not come back for an answer.
        """
        origin = head.headers.get(b"origin")
        if origin is not None and not self._allows_page(origin):
            raise OtherOriginError
        if head.method == "GET":
            if LAST_EVENT not in head.headers:
                raise no_stream(head)
            return
        media = head.headers.get(b"content-type", b"")
        if media != JSON_TYPE and not fields.is_json(media):
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "The content type must be application/json.")
        if head.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "The body must not be compressed.")

    def refuse(self, error: GatewayError, head: Head) -> WireReply:
        reply = self._encoder(version_of_head(head), None, is_call=False).encode_error(error)
        is_unknown = error.code is ErrorCode.UNAUTHENTICATED
        return self._protection.at(head.path).unauthenticated(reply) if is_unknown else reply

    def open(self, head: Head, document: Json, caller: Caller) -> Opened:
        if not isinstance(document, dict):
            return self._open_other(head, document, owner_of(caller))
        params, method, id_ = document.get("params", {}), document.get("method"), document.get("id")
        meta = params.get("_meta") if isinstance(params, dict) else None
        owner = owner_of(caller)
        version, session = self._revision(head, meta, owner)
        if needs_no_answer(document, version):
            return self._accept_notification(method, params, version, session)
        if not is_id(id_):
            raise RpcError(INVALID, f"A request has an id: an integer, or a string of at most {MAX_ID} characters.")
        try:
            if not isinstance(method, str) or document.get("jsonrpc") != "2.0":
                raise RpcError(INVALID, "It is not a request of JSON-RPC 2.0.")
            if not isinstance(params, dict):
                raise RpcError(PARAMS, "params must be an object.")
            if version == MODERN:
                check_modern(head, method, params, meta)
            answer = (self._modern if version == MODERN else self._legacy).get(method)
            if answer is None:
                raise RpcError(NO_METHOD, "Method not found", status=404)
            message = RpcMessage(id_, method, params, version, owner, session, can_get_scopes(caller))
            return answer(message, head)
        except GatewayError as error:
            return RefusedOpening(self._encoder(version, id_, is_call=method == "tools/call"), error)

    def _revision(self, head: Head, meta: Json, owner: str) -> tuple[str, Session | None]:
        """The revision that a request is answered in, and its session, if it is a legacy one that has any."""
        if head.headers.get(VERSION) == MODERN_TEXT:
            return MODERN, None
        version = version_of(head, meta)
        if version == MODERN or SESSION not in head.headers:
            return version, None
        session = self._sessions.read(head.headers[SESSION], owner)
        return version if session is None or VERSION in head.headers else session.version, session

    def _encoder(self, version: str, id_: Json, *, is_call: bool = False) -> McpEncoder:
        return McpEncoder(wire_version=version, id=id_, is_call=is_call)

    # Methods.

    def _discover(self, message: RpcMessage, head: Head) -> Opened:
        encoder = self._encoder(message.version, message.id)
        overview = {
            "supportedVersions": [MODERN],
            "capabilities": self._capabilities,
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "private",
        }
        return self._with_instructions(encoder, overview, head)

    def _with_instructions(
        self, encoder: McpEncoder, result: JsonObject, head: Head, headers: Headers = ()
    ) -> OpenedOverview:
        """A response to which the instructions are added, with what toolkits say of themselves."""
        own, only = self._instructions, self._toolkit(head)

        def answer(toolkits: Mapping[str, str | None]) -> WireReply:
            text = instructions_of(own, toolkits if only is None else {only: toolkits.get(only)})
            return encoder.respond({**result, "instructions": text} if text else result, headers)

        return OpenedOverview(encoder, answer)

    def _toolkit(self, head: Head) -> str | None:
        """The toolkit that the path names, if it names one."""
        return head.path[len(self._below) :] if head.path.startswith(self._below) else None

    def _initialize(self, message: RpcMessage, head: Head) -> Opened:
        offer = message.params.get("protocolVersion")
        version = offer if isinstance(offer, str) and offer in LEGACY else LEGACY[0]
        encoder = self._encoder(version, message.id)
        overview = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": SERVER,
        }
        opens = opens_urls(message.params.get("capabilities"))
        session = self._sessions.new(version, opens, message.owner)
        return self._with_instructions(encoder, overview, head, ((SESSION, session),))

    def _ping(self, message: RpcMessage, head: Head) -> Opened:
        encoder = self._encoder(message.version, message.id)
        return Immediate(encoder=encoder, reply=encoder.respond({}))

    def _list(self, message: RpcMessage, head: Head) -> Opened:
        if message.params.get("cursor") is not None:  # all tools are on one page
            raise RpcError(PARAMS, "There is no page of that cursor.")
        encoder = McpEncoder(wire_version=message.version, id=message.id, is_call=False, is_exact=self._is_exact)
        return OpenedList(encoder, Selection(toolkit=self._toolkit(head), versions=self._versions))

    def _listen(self, message: RpcMessage, head: Head) -> Opened:
        return open_listen(message.id, message.params, head, self._toolkit(head))

    def _call(self, message: RpcMessage, head: Head) -> Opened:
        return self._calls.open(message, head, self._toolkit(head))

    def _follow_up(self, message: RpcMessage, head: Head) -> Opened:
        encoder = self._encoder(message.version, message.id)
        return mcp_tasks.METHODS[message.method](encoder, message.params)

    # Bodies that are not one request, and requests that are about others.

    def _open_other(self, head: Head, document: Json, owner: str) -> Opened:
        """Opens what is not one message."""
        if head.method == "GET":
            return self._calls.resume(head, owner)
        version, _ = self._revision(head, None, owner)
        if isinstance(document, list) and version in BATCHED:
            return self._batch(document, version)
        raise RpcError(INVALID, "The body must be one JSON-RPC request.")

    def _batch(self, messages: list[Json], version: str) -> Opened:
        if not 0 < len(messages) <= MAX_BATCH or not all(isinstance(message, dict) for message in messages):
            raise RpcError(INVALID, f"A batch is an array of 1 to {MAX_BATCH} messages.")
        if any(message.get("method") == "initialize" for message in messages):
            raise RpcError(INVALID, "initialize is not accepted in a batch.")
        return OpenedBatch(encoder=self._encoder(version, None), documents=messages)

    def _accept_notification(self, method: Json, params: Json, version: str, session: Session | None) -> Opened:
        """Takes a notification; one that cancels a request does so if that has a session, and so an id of its own."""
        encoder = self._encoder(version, None)
        cancelled = params.get("requestId") if method == CANCELLED and isinstance(params, dict) else None
        if session is None or not is_id(cancelled):
            return Immediate(encoder=encoder, reply=ACCEPTED)
        return CancelByRequest(encoder=encoder, request_key=session.request_key(cancelled), reply=ACCEPTED)
