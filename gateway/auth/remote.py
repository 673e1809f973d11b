"""The keys of an issuer that publishes them (RFC 7517; OpenID Connect Discovery 1.0, section 4), kept while it is away.

A call waits for a fetch only when its token asks for an unknown key; for these the issuer is asked once per cooldown.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import asdict

from gateway import __version__
from gateway.auth.keys import Keys, KeySet, KeySetError, Verifier, named_in_tokens
from gateway.auth.tokens import MAX_NAME, without_login
from gateway.core import jsontext
from gateway.core.model import Json, JsonObject
from gateway.core.wire import Headers
from gateway.net.client import Origin, Proxy

log = logging.getLogger("gateway.auth")

FETCH_S = 5.0  # for all of a fetch; calls may wait for it, and most callers' patience is longer
MAX_BYTES = 1024 * 1024  # key sets have some KiB, with chains of certificates some tens
WELL_KNOWN = "/.well-known/openid-configuration"
# Compressed, a MiB on the wire could be a GiB in memory.
HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": f"toolgate/{__version__}"}
NO_HEADERS: Mapping[str, str] = {}

ProxyOf = Callable[[str], Proxy | None]  # by the URL of a request


def direct(url: str) -> Proxy | None:
    """No proxy for any URL."""
    return None


class IssuerStatus(Struct, frozen=True, kw_only=True):
    """How an issuer stands."""

    up: bool  # the last fetch succeeded
    age_s: float | None  # of the keys in use
    keys: int  # how many fit its algorithms
    last_error: str | None  # a few words; of the issuer's own only the name that it gives itself
    keys_expire_at: float | None = None  # when the last of them does, in seconds since 1970; None: one does not say

    def as_json(self) -> JsonObject:
        """For the detailed health."""
        return asdict(self) | {"age_s": None if self.age_s is None else round(self.age_s, 1)}


class RemoteKeys(Keys):
    """The keys of one issuer.

    They are fetched every `refresh_s`, a little jitter taken off, and after a failure every `cooldown_s`; for tokens
    with a key we do not have once in `cooldown_s` at most.
    """

    def __init__(
        self,
        name: str,
        url: str | None,  # where the set is; None: where the issuer itself says it is
        *,
        algorithms: frozenset[str],
        refresh_s: float,
        cooldown_s: float,
        credential: Headers = (),  # sent to the origin of `url`, or of `name`, and nowhere else
        allow_http: bool = False,
        proxy: ProxyOf = direct,  # through which one a URL is fetched
        tls: Callable[[], ssl.SSLContext] | None = None,  # makes what decides whom to trust; None: the system
        fetch_s: float = FETCH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(())
        self.algorithms = named_in_tokens(algorithms)
        self._name = name
        self._url = url
        self._refresh_s = refresh_s
        self._cooldown_s = cooldown_s
        self._credential = {field.decode(): value.decode() for field, value in credential}
        self._allow_http = allow_http
        self._proxy = proxy
        self._trusted = system_authorities if tls is None else cache(tls)
        self._fetch_s = fetch_s
        self._clock = clock
        self._document: Json = None
        self._keys = KeySet()
        self._asked_at = float("-inf")
        self._fetched_at: float | None = None
        self._is_failing = True
        self._last_error: str | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    def find(self, kid: object, algorithm: str) -> Sequence[Verifier]:
        """The keys that a token's header may mean."""
        return self._keys.find(kid, algorithm)

    def has(self, kid: object, algorithm: str) -> bool:
        return self._keys.has(kid, algorithm)

    @property
    def is_empty(self) -> bool:
        return self._keys.is_empty

    @property
    def may_change(self) -> bool:
        """Whether a fetch is under way, or another one due for a key that is missing."""
        return self._fetching is not None or self._clock() >= self._asked_at + self._cooldown_s

    @property
    def status(self) -> IssuerStatus:
        """How the issuer stands."""
        age_s = None if self._fetched_at is None else self._clock() - self._fetched_at
        up = age_s is not None and not self._is_failing
        keys = self._keys
        return IssuerStatus(
            up=up, age_s=age_s, keys=len(keys), keys_expire_at=keys.expires_at, last_error=self._last_error
        )

    async def refresh(self) -> None:
        """Waits for the fetch under way, or starts one if it is due."""
        if not self.may_change:
            return
        if self._fetching is None:
            self._asked_at = self._clock()
        await asyncio.wait([self._fetch()])  # a caller that leaves does not end it for the others

    def start(self) -> None:
        """Begins to keep the keys current, unless it does already."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep())

    def pace(self, refresh_s: float, cooldown_s: float) -> None:
        """From now on they are fetched that often."""
        if (refresh_s, cooldown_s) == (self._refresh_s, self._cooldown_s):
            return
        self._refresh_s, self._cooldown_s = refresh_s, cooldown_s
        if self._keeping is not None:  # its pause may be a week yet
            self._keeping.cancel()
            self._keeping = None
            self.start()

    async def aclose(self) -> None:
        """Stops; the keys stay."""
        tasks = [task for task in (self._keeping, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await asyncio.wait([self._fetch()])
            pause_s = min(self._cooldown_s, self._refresh_s) if self._is_failing else self._refresh_s
            await asyncio.sleep(pause_s * random.uniform(0.9, 1.0))  # noqa: S311 - so that replicas do not come in step

    def _fetch(self) -> asyncio.Task[None]:
        """The fetch under way, or a new one."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_once())
        return self._fetching

    async def _fetch_once(self) -> None:
        try:
            async with asyncio.timeout(self._fetch_s):
                self._take(await self._fetch_document(_made(self._trusted)))
            self._fetched_at = self._clock()
            self._is_failing, self._last_error = False, None
        except (UnavailableError, KeySetError, TimeoutError) as exc:
            self._is_failing = True
            reason = str(exc) or f"no answer in {self._fetch_s:g} s"
            # The kind; the rest may quote the issuer.
            self._last_error = reason if isinstance(exc, AnotherIssuerError) else reason.partition(":")[0]
            log.warning("the keys of an issuer could not be fetched", extra={"issuer": self._name, "reason": reason})
        finally:
            self._fetching = None

    async def _fetch_document(self, trusted: ssl.SSLContext) -> JsonObject:
        """The key set of the issuer. Raises UnavailableError."""
        if self._url is not None:
            return await fetch(self._url, trusted, headers=self._credential, proxy=self._proxy)
        described = await discover(self._name, trusted, headers=self._credential, proxy=self._proxy)
        url = jwks_url(self._name, described, allow_http=self._allow_http)
        is_there = Origin.parse(url) == Origin.parse(self._name)
        return await fetch(url, trusted, headers=self._credential if is_there else NO_HEADERS, proxy=self._proxy)

    def _take(self, document: Json) -> None:
        """Puts the keys of a document in the place of those we had. Raises KeySetError."""
        if document == self._document:
            return
        self._keys = KeySet.read(document, self.algorithms)
        self._document = document
        if self._keys.is_empty:
            log.warning("an issuer has no key that fits its algorithms", extra={"issuer": self._name})
        else:
            log.info("the keys of an issuer have changed", extra={"issuer": self._name})


class UnavailableError(Exception):
    """Keys that could not be had; the text is for our log."""


class StatusError(UnavailableError):
    """An answer with a `status` that was not expected."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class AnotherIssuerError(UnavailableError):
    """A discovery document that names another issuer, or none; `named` is what it says."""

    def __init__(self, issuer: str, named: Json) -> None:
        says = f"of {shown_name(named)}" if isinstance(named, str) else "without an issuer"
        super().__init__(f"its discovery document is that {says}, not of {shown_name(issuer)}")
        self.named = named


async def discover(
    issuer: str,
    trusted: ssl.SSLContext,
    *,
    at: str | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    proxy: ProxyOf = direct,
) -> JsonObject:
    """What an issuer says about itself, by default at the place of OpenID Connect.

    The caller sets the deadline. Raises UnavailableError.
    """
    document = await fetch(at or issuer.rstrip("/") + WELL_KNOWN, trusted, headers=headers, proxy=proxy)
    if document.get("issuer") != issuer:
        raise AnotherIssuerError(issuer, document.get("issuer"))
    return document


def shown_name(issuer: str) -> str:
    """The name of an issuer for an operator, as far as it can be one."""
    text = without_login(issuer)
    return text if text.isprintable() and len(text) <= MAX_NAME else f"{text[:MAX_NAME]!a}..."


def jwks_url(issuer: str, document: JsonObject, *, allow_http: bool = False) -> str:
    """Where the JWK set of an issuer is, by its discovery document. Raises UnavailableError."""
    return named_url(issuer, document, "jwks_uri", allow_http=allow_http)


def named_url(issuer: str, document: JsonObject, member: str, *, allow_http: bool = False) -> str:
    """A URL that an issuer's discovery document names. Raises UnavailableError."""
    url = document.get(member)
    # An issuer elsewhere has nothing to say about what runs beside us.
    loopback = not issuer.startswith("https:")
    if not isinstance(url, str) or not _is_safe(url, loopback=loopback, allow_http=allow_http):
        raise UnavailableError(f"its discovery document names no {member} with https")
    return url


async def fetch(
    url: str,
    trusted: ssl.SSLContext,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    statuses: Collection[int] = (200,),
    proxy: ProxyOf = direct,
) -> JsonObject:
    """A JSON object, over a connection of its own; with a `form` that is sent by POST.

    `headers` are sent besides the usual ones; any status but one of `statuses` is an error. The caller sets the
    deadline. Raises UnavailableError.
    """
    import httpx  # takes 5 MB and 70 ms, which only gateways with such issuers pay

    body = bytearray()
    through = proxy(url)
    try:
        async with (
            httpx.AsyncClient(
                verify=trusted,
                trust_env=False,
                timeout=None,  # noqa: S113 - the caller's
                proxy=None if through is None else through.url,
            ) as client,
            client.stream(
                "GET" if form is None else "POST",
                url,
                headers={**HEADERS, **headers},
                data=form,
                follow_redirects=False,
            ) as response,
        ):
            if response.status_code not in statuses:
                raise StatusError(response.status_code)
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise UnavailableError("the answer is compressed")
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BYTES:
                    raise UnavailableError(f"the answer is larger than {MAX_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        way = "" if through is None else f", through the proxy {through.host}:{through.port}"
        raise UnavailableError(_why(exc) + way) from exc
    try:
        document = jsontext.decode(bytes(body))
    except jsontext.JsonError as exc:
        raise UnavailableError(f"the answer is no JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise UnavailableError("the answer is no JSON object")
    return document


def _why(exc: Exception) -> str:
    """What the system says of a request that was not answered; else what httpx calls that."""
    below: BaseException | None = exc
    while below is not None and not (isinstance(below, OSError) and below.errno):
        below = below.exceptions[0] if isinstance(below, BaseExceptionGroup) else below.__cause__ or below.__context__
    match below:
        case None:
            return f"{type(exc).__name__}: {exc}"
        case socket.gaierror():
            return f"its host cannot be looked up ({below.strerror})"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted ({below.verify_message.rstrip('.')})"
        case ssl.SSLError():
            return f"the TLS handshake failed ({below.reason})"
    return os.strerror(below.errno or 0).lower()


def _made(trusted: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Raises UnavailableError where the files of certificates are gone, or no longer hold any."""
    try:
        return trusted()
    except OSError as exc:
        raise UnavailableError(f"its certificates cannot be read: {exc.strerror or exc}") from exc


@cache
def system_authorities() -> ssl.SSLContext:
    """The authorities that the system trusts, or those of SSL_CERT_FILE. To read them takes some 70 ms."""
    return ssl.create_default_context()


def _is_safe(url: str, *, loopback: bool, allow_http: bool) -> bool:
    """Whether keys may be fetched there: with https, without as far as `allow_http` or, on this machine, `loopback`."""
    try:
        origin = Origin.parse(url)
        if origin.is_tls:
            return True
    except ValueError:
        return False
    try:
        is_local = origin.host == "localhost" or ipaddress.ip_address(origin.host).is_loopback
    except ValueError:  # a name
        is_local = False
    return loopback if is_local else allow_http
