"""The surface of MCP (Model Context Protocol): tools only, stateless, each request in the revision that it names.

Modern callers (2026-07-28) say in every request what they speak; legacy ones begin with `initialize` and may go on at
any replica. Methods of resources, prompts, completion and logging are not declared and do not exist here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from msgspec import Raw, Struct
from msgspec.structs import replace

from gateway.dialects import fields, mcp_tasks
from gateway.dialects.mcp_answers import SERVER, McpEncoder, McpStream, RpcError
from gateway.dialects.mcp_auth import OtherOriginError, Protection, can_get_scopes
from gateway.dialects.mcp_consent import UrlPrompt, opens_urls, unanswered
from gateway.dialects.mcp_listen import open_listen, takes_events
from gateway.dialects.mcp_session_ids import Sealing, Session, SessionIds, is_resumable
from gateway.dialects.mcp_tools import LIST_TTL_MS
from gateway.dialects.mcp_wire import (
    ASSUMED,
    BATCHED,
    CAPABILITIES_MEMBER,
    HEADER_MISMATCH,
    INVALID,
    LAST_EVENT,
    LEGACY,
    METHOD,
    MODERN,
    NAME,
    NAMED_BY,
    NO_METHOD,
    PARAMS,
    RESUMABLE,
    ROUTING,
    SESSION,
    TASKS,
    UNSUPPORTED_VERSION,
    VERSION,
    VERSION_MEMBER,
    header_text,
)
from gateway.errors import ErrorCode, GatewayError
from gateway.jsontext import encode
from gateway.model import Arguments, Json, JsonObject, Selection, ToolCall, ToolRef
from gateway.ports import (
    NO_TERMS,
    Awaited,
    Caller,
    CallTerms,
    Encoder,
    Endpoint,
    Handover,
    Immediate,
    Opened,
    OpenedBatch,
    OpenedCall,
    OpenedList,
    OpenedOverview,
    OpenedReturn,
    OpenedWithdrawal,
    RefusedOpening,
)
from gateway.wire import Head, Headers, WireReply

NAME_OF_DIALECT = "mcp"
MAX_ID = 256  # characters
MODERN_TEXT = MODERN.encode()
MAX_INSTRUCTIONS = 8192  # characters; clients show models all of them, or the first 2,000
JSON_TYPE = b"application/json"
MAX_BATCH = 20  # messages
CALL_ID_MEMBER, CONTEXT_MEMBER, WAIT_MEMBER = "toolgate/call_id", "toolgate/context", "toolgate/wait"
IDEMPOTENCY_KEY = b"idempotency-key"
TRACEPARENT, TRACESTATE = "traceparent", "tracestate"  # unprefixed by exception (2026-07-28, `_meta`)
CANCELLED = "notifications/cancelled"
TAKEN = WireReply(status=202)


ENCODERS: Mapping[tuple[str, str], Encoder] = {
    (NAME_OF_DIALECT, revision): McpEncoder(wire_version=revision) for revision in (MODERN, *LEGACY)
}


class Message(Struct, frozen=True):
    """A request as JSON-RPC has it. `version` is the revision that it is answered in.

    `can_get_scopes`: its caller can act on being told that scopes are missing.
    """

    id: Json
    method: str
    params: JsonObject
    version: str
    principal: str
    session: Session | None = None
    can_get_scopes: bool = False


class McpSurface:
    """`POST /mcp`, and below it an endpoint for each toolkit; `ports.Surface`.

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
        self._consents = consents
        self._protection = protection
        self._allows_page = allows_page
        self._instructions = instructions or ""
        self._below = f"{path}/"
        self._is_exact = lists_exact
        self._versions: Literal["newest", "names"] = "names" if versions == "all" else "newest"
        self._stream_after_s = stream_after_s
        self._task_after_s = task_after_s
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
        self.endpoints: Mapping[str, Endpoint] = {path: endpoint, of_toolkit: replace(endpoint, route=of_toolkit)}
        self._modern: dict[str, Callable[[Message, Head], Opened]] = {
            "server/discover": self._discover,
            "tools/list": self._list,
            "tools/call": self._call,
        }
        if listens:
            self._modern["subscriptions/listen"] = self._listen
        if task_after_s is not None:
            self._modern |= dict.fromkeys(mcp_tasks.METHODS, self._follow_up)
        self._legacy: dict[str, Callable[[Message, Head], Opened]] = {
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
                raise _no_stream(head)
            return
        media = head.headers.get(b"content-type", b"")
        if media != JSON_TYPE and not fields.is_json(media):
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "The content type must be application/json.")
        if head.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise GatewayError(ErrorCode.UNSUPPORTED_MEDIA, "The body must not be compressed.")

    def refuse(self, error: GatewayError, head: Head) -> WireReply:
        reply = self._encoder(_version_of_head(head), None, is_call=False).encode_error(error)
        is_unknown = error.code is ErrorCode.UNAUTHENTICATED
        return self._protection.at(head.path).unauthenticated(reply) if is_unknown else reply

    def open(self, head: Head, document: Json, caller: Caller) -> Opened:
        if not isinstance(document, dict):
            return self._open_other(head, document, caller.principal)
        params, method, id_ = document.get("params", {}), document.get("method"), document.get("id")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version, session = self._revision(head, meta, caller.principal)
        if _needs_no_answer(document, version):
            return self._take(method, params, version, session)
        if not _is_id(id_):
            raise RpcError(INVALID, f"A request has an id: an integer, or a string of at most {MAX_ID} characters.")
        try:
            if not isinstance(method, str) or document.get("jsonrpc") != "2.0":
                raise RpcError(INVALID, "It is not a request of JSON-RPC 2.0.")
            if not isinstance(params, dict):
                raise RpcError(PARAMS, "params must be an object.")
            if version == MODERN:
                _check_modern(head, method, params, meta)
            answer = (self._modern if version == MODERN else self._legacy).get(method)
            if answer is None:
                raise RpcError(NO_METHOD, "Method not found", status=404)
            message = Message(id_, method, params, version, caller.principal, session, can_get_scopes(caller))
            return answer(message, head)
        except GatewayError as error:
            return RefusedOpening(self._encoder(version, id_, is_call=method == "tools/call"), error)

    def _revision(self, head: Head, meta: Json, principal: str) -> tuple[str, Session | None]:
        """The revision that a request is answered in, and its session, if it is a legacy one that has any."""
        version = _version_of(head, meta)
        if version == MODERN or SESSION not in head.headers:
            return version, None
        session = self._sessions.read(head.headers[SESSION], principal)
        return version if session is None or VERSION in head.headers else session.version, session

    def _encoder(
        self,
        version: str,
        id_: Json,
        *,
        is_call: bool = False,
        stream: McpStream | None = None,
        protection: Protection | None = None,
        prompt: UrlPrompt | None = None,
    ) -> McpEncoder:
        return McpEncoder(
            wire_version=version, id=id_, is_call=is_call, stream=stream, protection=protection, prompt=prompt
        )

    # Methods.

    def _discover(self, message: Message, head: Head) -> Opened:
        encoder = self._encoder(message.version, message.id)
        found = {
            "supportedVersions": [MODERN],
            "capabilities": self._capabilities,
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "private",
        }
        return self._with_instructions(encoder, found, head)

    def _with_instructions(
        self, encoder: McpEncoder, result: JsonObject, head: Head, headers: Headers = ()
    ) -> OpenedOverview:
        """A response to which the instructions are added, with what toolkits say of themselves."""
        own, only = self._instructions, self._toolkit(head)

        def answer(toolkits: Mapping[str, str | None]) -> WireReply:
            told = instructions_of(own, toolkits if only is None else {only: toolkits.get(only)})
            return encoder.respond({**result, "instructions": told} if told else result, headers)

        return OpenedOverview(encoder, answer)

    def _toolkit(self, head: Head) -> str | None:
        """The toolkit that the path names, if it names one."""
        return head.path[len(self._below) :] if head.path.startswith(self._below) else None

    def _initialize(self, message: Message, head: Head) -> Opened:
        asked = message.params.get("protocolVersion")
        version = asked if isinstance(asked, str) and asked in LEGACY else LEGACY[0]
        encoder = self._encoder(version, message.id)
        begun = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": SERVER,
        }
        opens = opens_urls(message.params.get("capabilities"))
        session = self._sessions.new(version, opens, message.principal)
        return self._with_instructions(encoder, begun, head, ((SESSION, session),))

    def _ping(self, message: Message, head: Head) -> Opened:
        encoder = self._encoder(message.version, message.id)
        return Immediate(encoder=encoder, reply=encoder.respond({}))

    def _list(self, message: Message, head: Head) -> Opened:
        if message.params.get("cursor") is not None:  # all tools are on one page
            raise RpcError(PARAMS, "There is no page of that cursor.")
        encoder = McpEncoder(wire_version=message.version, id=message.id, is_call=False, is_exact=self._is_exact)
        return OpenedList(encoder, Selection(toolkit=self._toolkit(head), versions=self._versions))

    def _listen(self, message: Message, head: Head) -> Opened:
        return open_listen(message.id, message.params, head, self._toolkit(head))

    def _call(self, message: Message, head: Head) -> Opened:
        params = message.params
        name, given = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not 0 < len(name) <= fields.MAX_TOOL_ID:
            raise RpcError(PARAMS, f"name must be a string of 1 to {fields.MAX_TOOL_ID} characters.")
        if not (isinstance(given, dict) or (isinstance(given, Raw) and bytes(given).startswith(b"{"))):
            raise RpcError(PARAMS, "arguments must be an object.")
        meta = params.get("_meta")
        request: JsonObject = {"input": given}
        if isinstance(meta, dict):
            request |= {key: meta[member] for key, member in LENT.items() if member in meta}
        if "call_id" not in request and IDEMPOTENCY_KEY in head.headers:
            request["call_id"] = head.headers[IDEMPOTENCY_KEY].decode("latin-1")
        toolkit = self._toolkit(head)
        if "." not in name:
            ref = ToolRef(tool=name, by_name=True, toolkit=toolkit)
        else:
            ref = _tool_ref(name) if toolkit is None else replace(_tool_ref(name), toolkit=toolkit)
        prompt, awaited = self._prompt(message, name, given)
        after_s = self._task_after_s if message.version == MODERN and mcp_tasks.takes_tasks(meta) else None
        stream = (
            _stream(head, meta, self._primer(message)) if after_s is None or after_s > self._stream_after_s else None
        )  # the task is first
        encoder = self._encoder(
            message.version,
            message.id,
            is_call=True,
            stream=stream,
            protection=self._protection.at(head.path),
            prompt=prompt,
        )
        if awaited is not None and (refusal := unanswered(awaited, params.get("inputResponses"))) is not None:
            return RefusedOpening(encoder, refusal)
        handover = None if after_s is None else mcp_tasks.handover(encoder, after_s)
        terms, hides = _terms(message, meta, handover), not message.can_get_scopes
        return OpenedCall(encoder, _call_of(request, ref), hides_tools=hides, terms=terms, awaited=awaited)

    def _prompt(self, message: Message, tool: str, arguments: Arguments) -> tuple[UrlPrompt | None, Awaited | None]:
        """How the user can be asked to open URLs, and what the caller brings back of it. Raises RpcError."""
        if message.version == MODERN:
            capabilities, state = message.params["_meta"][CAPABILITIES_MEMBER], message.params.get("requestState")
        else:
            session, state = message.session, None
            capabilities = URLS if session and session.opens_urls and session.version == LEGACY[0] else None
        asks = opens_urls(capabilities)
        if not asks and state is None:
            return None, None
        is_modern = message.version == MODERN
        prompt = UrlPrompt(
            sealing=self._consents,
            principal=message.principal,
            tool=tool,
            arguments=arguments,
            is_modern=is_modern,
            asks=asks,
        )
        if state is None:
            return prompt, None
        try:
            awaited = prompt.awaited(state)
        except ValueError:
            raise RpcError(PARAMS, "requestState is not of this call, or is too old.") from None
        return prompt.after(awaited), awaited

    def _follow_up(self, message: Message, head: Head) -> Opened:
        encoder = self._encoder(message.version, message.id)
        return mcp_tasks.METHODS[message.method](encoder, message.params)

    # Bodies that are not one request, and requests that are about others.

    def _open_other(self, head: Head, document: Json, principal: str) -> Opened:
        """Opens what is not one message."""
        if head.method == "GET":
            return self._resume(head, principal)
        version, _ = self._revision(head, None, principal)
        if isinstance(document, list) and version in BATCHED:
            return self._batch(document, version)
        raise RpcError(INVALID, "The body must be one JSON-RPC request.")

    def _batch(self, messages: list[Json], version: str) -> Opened:
        if not 0 < len(messages) <= MAX_BATCH or not all(isinstance(message, dict) for message in messages):
            raise RpcError(INVALID, f"A batch is an array of 1 to {MAX_BATCH} messages.")
        if any(message.get("method") == "initialize" for message in messages):
            raise RpcError(INVALID, "initialize is not taken in a batch.")
        return OpenedBatch(encoder=self._encoder(version, None), documents=messages)

    def _take(self, method: Json, params: Json, version: str, session: Session | None) -> Opened:
        """Takes a notification; one that cancels a request does so if that has a session, and so an id of its own."""
        encoder = self._encoder(version, None)
        cancelled = params.get("requestId") if method == CANCELLED and isinstance(params, dict) else None
        if session is None or not _is_id(cancelled):
            return Immediate(encoder=encoder, reply=TAKEN)
        return OpenedWithdrawal(encoder=encoder, request_key=session.request_key(cancelled), reply=TAKEN)

    def _primer(self, message: Message) -> Callable[[], bytes] | None:
        """What makes the id of the event from which the answer to a call can be resumed; None: it cannot be."""
        session = message.session
        if session is None or not is_resumable(session, message.version):
            return None
        return partial(self._sessions.event, session, message.id, message.principal)

    def _resume(self, head: Head, principal: str) -> Opened:
        """Opens a GET for the answer of a stream that broke off (2025-11-25, Resumability)."""
        last = head.headers[LAST_EVENT]
        event = self._sessions.read_event(last, principal)
        if event is None:
            raise _no_stream(head)
        key, id_ = event
        encoder = McpEncoder(wire_version=RESUMABLE, id=id_, stream=McpStream(primer=lambda: last))
        return OpenedReturn(encoder=encoder, request_key=key, lost=_no_stream(head))


URLS: JsonObject = {"elicitation": {"url": {}}}
LENT = {"call_id": CALL_ID_MEMBER, "context": CONTEXT_MEMBER}


def _tool_ref(name: str) -> ToolRef:
    try:
        return fields.tool_ref(name)
    except GatewayError:
        raise RpcError(PARAMS, f"Unknown tool: {name}") from None


def instructions_of(own: str, toolkits: Mapping[str, str | None]) -> str:
    """What models are told: the operator's words, then what toolkits say of themselves, as far as there is room."""
    parts = [own] if own else []
    room = MAX_INSTRUCTIONS - len(own)
    for name, description in toolkits.items():
        line = f"{name}: {' '.join(description.split())}" if description else ""
        if line and len(line) < room:
            parts.append(line)
            room -= len(line) + 2
    return "\n\n".join(parts)


def _call_of(request: JsonObject, ref: ToolRef) -> ToolCall:
    try:
        return fields.call_of(request, ref)
    except GatewayError as exc:
        raise RpcError(PARAMS, exc.message) from None


def _terms(message: Message, meta: Json, handover: Handover | None) -> CallTerms:
    """A legacy call goes on if its caller leaves, and comes again under the same id of its session.

    Raises RpcError for a time to wait that is none.
    """
    meta = meta if isinstance(meta, dict) else {}
    wait = meta.get(WAIT_MEMBER)
    wait_s = fields.duration(wait)
    if wait is not None and wait_s is None:
        raise RpcError(PARAMS, f"{WAIT_MEMBER} must be a number of seconds.")
    trace = _trace(meta) if TRACEPARENT in meta else None
    if message.version == MODERN:
        is_usual = wait_s is None and handover is None and trace is None
        return NO_TERMS if is_usual else CallTerms(wait_s=wait_s, handover=handover, trace=trace)
    key = None if message.session is None else message.session.request_key(message.id)
    return CallTerms(request_key=key, outlives_caller=True, wait_s=wait_s, trace=trace)


def _trace(meta: JsonObject) -> tuple[bytes, bytes | None] | None:
    """The trace that a request is part of (2026-07-28, `_meta`); None for what can be none."""
    parent, state = meta[TRACEPARENT], meta.get(TRACESTATE)
    if not isinstance(parent, str):
        return None
    return parent.encode("ascii", "replace"), state.encode("ascii", "replace") if isinstance(state, str) else None


def _no_stream(head: Head) -> GatewayError:
    """The refusal of a GET for events of which there are none."""
    allow = ((b"allow", b"POST"),)
    return GatewayError(ErrorCode.METHOD_NOT_ALLOWED, f"{head.path} answers POST only.", headers=allow)


def _stream(head: Head, meta: Json, primer: Callable[[], bytes] | None) -> McpStream | None:
    """How a late answer is sent: not as events to callers that take JSON alone."""
    if not takes_events(head):
        return None
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if isinstance(token, str) and len(token) <= MAX_ID:
        return McpStream(encode(token), primer)
    return McpStream(encode(token) if _is_id(token) else None, primer)


def _needs_no_answer(document: JsonObject, version: str) -> bool:
    """Whether a message is a notification, or a response to nothing that we asked, which modern callers never send."""
    method = document.get("method")
    if method is None:
        return version != MODERN and ("result" in document or "error" in document)
    return "id" not in document and isinstance(method, str) and method.startswith("notifications/")


def _is_id(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID
    return isinstance(value, int) and not isinstance(value, bool)


def _version_of_head(head: Head) -> str:
    version = head.headers.get(VERSION)
    if version == MODERN_TEXT:
        return MODERN
    if version is None:
        return ASSUMED
    text = version.decode("latin-1").strip()
    return text if text in LEGACY else MODERN


def _version_of(head: Head, meta: Json) -> str:
    """The revision that a request is answered in; that of one which names none we know is the modern one."""
    named = meta.get(VERSION_MEMBER) if isinstance(meta, dict) else None
    version = _version_of_head(head)
    return MODERN if named == MODERN or (named is not None and VERSION not in head.headers) else version


def _is_text(value: bytes | None, text: Json) -> bool:
    """Whether a header says a text as it is, but for spaces around it."""
    if value is None or not isinstance(text, str):
        return False
    return value == text.encode() or value.strip().decode("latin-1") == text


def _check_modern(head: Head, method: str, params: JsonObject, meta: Json) -> None:
    """Checks what every modern request carries, in the order of refusals (2026-07-28, Transports). Raises RpcError."""
    meta = meta if isinstance(meta, dict) else {}
    named = meta.get(VERSION_MEMBER)
    for member, kind in ((VERSION_MEMBER, str), (CAPABILITIES_MEMBER, dict)):
        if not isinstance(meta.get(member), kind):
            raise RpcError(PARAMS, f"params._meta lacks {member}.")
    for repeated in ROUTING if head.lines else ():
        if sum(name == repeated for name, _ in head.lines) > 1:
            raise RpcError(HEADER_MISMATCH, f"The header {repeated.decode()} is repeated.")
    if not _is_text(head.headers.get(VERSION), named):
        raise RpcError(HEADER_MISMATCH, "MCP-Protocol-Version is not the version in params._meta.")
    if not _is_text(head.headers.get(METHOD), method):
        raise RpcError(HEADER_MISMATCH, "Mcp-Method is not the method of the body.")
    if method in NAMED_BY:
        value = head.headers.get(NAME)
        if value is None or header_text(value) != params.get(NAMED_BY[method]):
            raise RpcError(HEADER_MISMATCH, f"Mcp-Name is not params.{NAMED_BY[method]} of the body.")
    if named != MODERN:
        data = {"supported": [MODERN], "requested": named}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)
