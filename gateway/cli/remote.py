"""A client of a running gateway, in the flat form of OXP 1.0: what it reads of answers, and refusals as sentences."""

from __future__ import annotations

import argparse
import os
import re
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
from msgspec import Struct, field

from gateway import jsontext
from gateway.cli.output import UNREACHABLE, USAGE, CommandError
from gateway.dialects.fields import JSON_TYPE
from gateway.errors import CODE, ErrorCode
from gateway.model import Json
from gateway.transport import Origin, Reply
from gateway.wire import Headers

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8080"
CONNECT_S = 5.0  # the gateway is near, or there is none
ANSWER_S = 3660.0  # a route allows its tools at most an hour; Ctrl-C is nearer
MAX_ANSWER_BYTES = 128 * 1024 * 1024  # a catalogue of 20,000 tools has half of it

SECONDS = re.compile(rb"[0-9]{1,9}")  # as gateways write Retry-After

HOW_TO_LOG_IN = "Put a bearer token in TOOLGATE_TOKEN; `toolgate token -c FILE` makes one for development."

Answer = TypeVar("Answer", bound=Struct)


class Challenge(Struct, frozen=True):
    """Where a user grants access, and where to ask whether it is done (ToolAuthorizationChallenge)."""

    url: str
    check_url: str | None = None


class NamedSecret(Struct, frozen=True):
    id: str


class Missing(Struct, frozen=True):
    """`missing_requirements`."""

    authorization: tuple[Challenge, ...] = ()
    secrets: tuple[NamedSecret, ...] = ()
    user_id: bool = False


class Refusal(Struct, frozen=True):
    """ServerErrorResponse and ValidationErrorResponse."""

    message: str
    developer_message: str | None = None
    parameter_errors: dict[str, str] = field(default_factory=dict)
    missing_requirements: Missing = Missing()


class Failure(Struct, frozen=True):
    """ToolError."""

    message: str
    can_retry: bool = False
    retry_after_ms: float | None = None
    additional_prompt_content: str | None = None


class Outcome(Struct, frozen=True):
    """CallToolResponse."""

    success: bool
    value: Any = None
    error: Failure = Failure(message="The tool failed and did not say why.")


class Needs(Struct, frozen=True):
    """`requirements` of a tool."""

    authorization: tuple[NamedSecret, ...] = ()
    secrets: tuple[NamedSecret, ...] = ()
    user_id: bool = False


class Tool(Struct, frozen=True):
    """ToolDefinition."""

    id: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    requirements: Needs = Needs()


class Catalogue(Struct, frozen=True):
    """ListToolsResponse."""

    items: tuple[Tool, ...]


class ChallengeStatus(Struct, frozen=True):
    status: str


def read(body: bytes, form: type[Answer]) -> Answer | None:
    """Reads a body; None when it is not of that form."""
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the URL of the gateway and the token."""
    url, token = os.environ.get("TOOLGATE_URL") or DEFAULT_URL, os.environ.get("TOOLGATE_TOKEN")
    parser.add_argument("--url", default=url, help="of the gateway; better in TOOLGATE_URL (now: %(default)s)")
    parser.add_argument("--token", default=token, help="a bearer token; better in TOOLGATE_TOKEN, where nobody sees it")
    parser.add_argument("--json", action="store_true", help="print the gateway's whole answer")


class Remote:
    """One gateway, and the token it is asked with. Nothing else is taken from the environment: no proxy, no netrc."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise CommandError(USAGE, f"{url!r} is not the URL of a gateway: it must begin with http:// or https://.")
        self._headers: Headers = ((b"oxp-version", b"1.0"),)
        self.has_token = bool(token and token.strip())
        if token and self.has_token:
            self._headers += ((b"authorization", b"Bearer " + _checked(token.strip()).encode("ascii")),)

    async def ask(self, method: str, path: str, body: Json = None) -> Reply:
        """Sends one request with our credential. Raises CommandError (UNREACHABLE)."""
        if body is None:
            return await self._send(method, self.url + path, self._headers)
        return await self._send(method, self.url + path, (*self._headers, JSON_TYPE), _encode(body))

    async def look(self, url: str) -> Reply:
        """Gets a URL that an answer named, which need not be the gateway's: without our credential."""
        return await self._send("GET", url, ())

    async def _send(self, method: str, url: str, headers: Headers, body: bytes = b"") -> Reply:
        import httpx  # late: other commands do without

        try:
            trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no authority yet
            if Origin.parse(url).is_tls:
                trusted.load_default_certs()  # takes 70 ms
            timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
            async with (
                httpx.AsyncClient(verify=trusted, trust_env=False, timeout=timeout) as client,
                client.stream(method, url, headers=headers, content=body) as response,
            ):
                return await _read(response)
        except (ValueError, httpx.InvalidURL) as exc:
            raise CommandError(USAGE, f"{url!r} is not a URL: {exc}.") from exc
        except httpx.TransportError as exc:
            raise CommandError(UNREACHABLE, *_out_of_reach(self.url, Origin.parse(url), exc)) from exc


async def _read(response: httpx.Response) -> Reply:
    import httpx

    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_ANSWER_BYTES:
            raise httpx.RemoteProtocolError(f"The reply is larger than {MAX_ANSWER_BYTES} bytes.")
    headers = tuple((name.lower(), value) for name, value in response.headers.raw)
    return Reply(response.status_code, headers, bytes(body))


def _checked(token: str) -> str:
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise CommandError(USAGE, f"This is not a bearer token: it has spaces or other odd characters. {HOW_TO_LOG_IN}")
    return token


def _encode(body: Json) -> bytes:
    try:
        return jsontext.encode(body)
    except UnicodeEncodeError as exc:  # bytes of the command line that are no text
        raise CommandError(USAGE, "An argument is not valid UTF-8 text.") from exc


def _out_of_reach(url: str, asked: Origin, exc: httpx.TransportError) -> list[str]:
    """Distinguishes a gateway that is not there from one that broke off, in which case the tool may have run."""
    import httpx

    if not isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout):
        why = str(exc) or f"{type(exc).__name__}."  # a reset connection or a timeout comes without words
        return [f"The gateway at {url} broke off: {why}", "If this was a call, its tool may have run."]
    if (handshake := _tls_error(exc)) is not None:
        why = f": {handshake.verify_message.rstrip('.')}" if isinstance(handshake, ssl.SSLCertVerificationError) else ""
        return [
            f"The TLS handshake with {asked} failed{why}.",
            "Name the certificate of an authority of your own in SSL_CERT_FILE, or write http for https.",
        ]
    slow = isinstance(exc, httpx.ConnectTimeout)
    why = f"did not take a connection within {CONNECT_S:g} s" if slow else "cannot be reached"
    where = "" if str(asked) == url else f" at {url}"
    return [
        f"No gateway answers{where}: {asked} {why}.",
        "Start one with `toolgate serve`, or say in TOOLGATE_URL where it is.",
    ]


def _tls_error(exc: BaseException | None) -> ssl.SSLError | None:
    """The error of OpenSSL that an exception comes from, for which httpx has no class of its own."""
    while exc is not None and not isinstance(exc, ssl.SSLError):
        exc = exc.__cause__ or exc.__context__
    return exc


def code_of(reply: Reply) -> str:
    """The `Toolgate-Code` of a refusal or failure; empty for a result."""
    return (reply.header(CODE) or b"").decode("latin-1")


def no_gateway(url: str, reply: Reply) -> NoReturn:
    """Raises CommandError for an answer that is none of a gateway's."""
    raise CommandError(
        UNREACHABLE, f"What answers at {url} is not a gateway, or not a healthy one (status {reply.status})."
    )


def refused_for_s(reply: Reply) -> int | None:
    """Seconds until a refused poll may be repeated (rate limit, state unavailable); None if it never may."""
    after = reply.header(b"retry-after") or b""
    return int(after) if reply.status in (400, 429) and SECONDS.fullmatch(after) else None


def explain(remote: Remote, reply: Reply, again: str = "repeat the command") -> Iterator[str]:
    """Says why a request was refused and what to do about it, in lines; `again` is what to do after a consent.

    Raises CommandError for an answer that is none of a gateway's.
    """
    refused = read(reply.body, Refusal)
    for_now = reply.status == 503 and reply.header(b"retry-after") is not None
    if refused is None or not (for_now or 400 <= reply.status < 500):
        no_gateway(remote.url, reply)
    if code_of(reply) == ErrorCode.UNAUTHENTICATED:  # whatever the status: `errors.strict` makes it a 400
        yield "The gateway does not accept the token; it may have expired." if remote.has_token else refused.message
        yield HOW_TO_LOG_IN
        return
    yield refused.message
    if refused.developer_message is not None:
        yield refused.developer_message
    yield from (f"  {name}: {what}" for name, what in refused.parameter_errors.items())
    missing = refused.missing_requirements
    yield from (f"  Open {challenge.url}" for challenge in missing.authorization)
    if missing.authorization:
        yield f"  and {again} when you are done there."
    yield from (f"  Give --secret {secret.id}=VALUE." for secret in missing.secrets)
    if missing.user_id:
        yield "  Give --user-id ID."
    if (after := reply.header(b"retry-after")) is not None:
        yield f"Try again in {after.decode('latin-1')} s."
