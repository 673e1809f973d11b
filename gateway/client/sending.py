"""Requests of a client and their answers, over HTTP; nothing is taken from the environment: no proxy, no netrc."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.client.answers import GatewayReply
from gateway.client.errors import UnreachableError

if TYPE_CHECKING:
    import httpx

CONNECT_S = 5.0  # the gateway is near, or there is none
ANSWER_S = 3660.0  # a route allows its tools at most an hour; cancelling is nearer
MAX_ANSWER_BYTES = 128 * 1024 * 1024  # a catalogue of 20,000 tools has half of it
START_ONE = "Start one with `toolgate serve`, or say in TOOLGATE_URL where it is."
OWN_AUTHORITY = "Set SSL_CERT_FILE to the certificate of the gateway's authority, or write http for https."
MAY_HAVE_RUN = "If this was a call, its tool may have run."

Headers = dict[str, str]


class Sender:
    """Sends requests about one gateway, whose URL errors name; connections are kept."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: httpx.AsyncClient | None = None

    async def send(self, method: str, url: str, headers: Headers, body: bytes = b"") -> GatewayReply:
        """Raises UnreachableError, ValueError for what is no URL."""
        import httpx  # late: it takes as long as all else a command needs

        try:
            async with self._open_client(url).stream(method, url, headers=headers, content=body) as response:
                return await _read(response)
        except (ValueError, httpx.InvalidURL) as exc:
            raise ValueError(f"{url!r} is not a URL: {exc}.") from exc
        except httpx.TransportError as exc:
            raise _out_of_reach(self._url, url, exc) from exc

    def _open_client(self, url: str) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no authority yet
            if any(urlsplit(address).scheme == "https" for address in (self._url, url)):
                trusted.load_default_certs()  # takes 70 ms
            timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
            self._client = httpx.AsyncClient(verify=trusted, trust_env=False, timeout=timeout)
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


async def _read(response: httpx.Response) -> GatewayReply:
    import httpx

    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_ANSWER_BYTES:
            raise httpx.RemoteProtocolError(f"The reply is larger than {MAX_ANSWER_BYTES} bytes.")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers.raw}
    return GatewayReply(response.status_code, headers, bytes(body))


def _out_of_reach(gateway: str, url: str, exc: httpx.TransportError) -> UnreachableError:
    """Distinguishes a gateway that is not there from one that broke off, in which case the tool may have run."""
    import httpx

    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    if not isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout):
        why = str(exc) or f"{type(exc).__name__}."  # a reset connection or a timeout comes without words
        return UnreachableError(
            f"The connection to the gateway at {gateway} broke: {why}", may_have_run=True, advice=MAY_HAVE_RUN
        )
    if (handshake := _tls_error(exc)) is not None:
        why = f": {handshake.verify_message.rstrip('.')}" if isinstance(handshake, ssl.SSLCertVerificationError) else ""
        return UnreachableError(f"The TLS handshake with {origin} failed{why}.", advice=OWN_AUTHORITY)
    slow = isinstance(exc, httpx.ConnectTimeout)
    why = f"did not take a connection within {CONNECT_S:g} s" if slow else "cannot be reached"
    where = "" if origin == gateway else f" at {gateway}"
    return UnreachableError(f"No gateway answers{where}: {origin} {why}.", advice=START_ONE)


def _tls_error(exc: BaseException | None) -> ssl.SSLError | None:
    """The error of OpenSSL that an exception comes from, for which httpx has no class of its own."""
    while exc is not None and not isinstance(exc, ssl.SSLError):
        exc = exc.__cause__ or exc.__context__
    return exc
