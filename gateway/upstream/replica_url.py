"""Where a tool server is, how it is connected to, and what every backend is given."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from gateway import __version__
from gateway.configfile.web import TlsSettings
from gateway.core.ports import Outcomes
from gateway.core.wire import Headers
from gateway.net.body_memory import BodyMemory
from gateway.net.client import Kind, Limits, Origin, Pool, TransportError
from gateway.offload import ChildTasks, Offload
from gateway.upstream.admission import Admission, AdmissionLimits, BreakerRules
from gateway.upstream.proxies import proxy_for
from gateway.upstream.settings import BackendSettings

USER_AGENT = (b"user-agent", b"toolgate/" + __version__.encode())

GATEWAY_KINDS = frozenset((Kind.BUSY, Kind.INVALID, Kind.NO_TOKEN))  # kinds of errors that no tool server causes
NAMES_ORIGIN = frozenset((Kind.CONNECT, Kind.TLS, Kind.NO_TOKEN))  # kinds of errors whose messages do
SHARED_CONTEXTS = 16  # for connections over TLS that are kept ready
NEARLY = 0.9  # of the time a tool server is to have; the rest goes by on our side
SPARE_CONNECTIONS = 16  # beside calls: an event stream, lists, challenges, notices, tokens, results that are looked for


class Server:
    """One replica of a tool server: its base URL, whose path has no slash at its end, and the connections to it.

    `url` is for operators, and `name` in place of it if that is given. `patience_s` is the shortest time that the
    configuration gives any exchange of a call. `endpoint` is the path and query of protocols that have no paths of
    their own.
    """

    __slots__ = ("base_path", "endpoint", "patience_s", "pool", "url")

    def __init__(self, url: str, pool: Pool, patience_s: float, name: str = "") -> None:
        self.url = name or url
        self.pool = pool
        self.patience_s = patience_s
        self.base_path = urlsplit(url).path.rstrip("/")
        self.endpoint = path_and_query(url)

    def target(self, path: str) -> bytes:
        """The path and query of a request, from a path of the protocol."""
        return (self.base_path + path or "/").encode("ascii")

    def take_slash(self, location: bytes | None) -> bool:
        """Adds the slash to the end of the endpoint's path, or takes it away, if a redirect is about that and no more.

        Requests stay at the origin whatever the redirect says: behind a proxy some name it wrongly, with http.
        """
        path, mark, query = self.endpoint.partition(b"?")
        other = path.rstrip(b"/") if path.endswith(b"/") else path + b"/"
        try:
            to = urlsplit(urljoin(f"{self.pool.origin}{self.endpoint.decode()}", (location or b"").decode("ascii")))
        except ValueError:  # also UnicodeError
            return False
        if to.hostname != self.pool.origin.host or to.path.encode() != other:
            return False
        self.endpoint = other + mark + query
        return True

    def is_to_blame(self, exc: TransportError, given_s: float) -> bool:
        """Whether a broken exchange counts against the tool server, which had `given_s`.

        A timeout counts only if the exchange had as long as the configuration gives it. Callers may choose shorter
        times (`Prefer: wait`), and waiting in the queue uses time up; neither may shut a tool server for all others.
        """
        if exc.kind is not Kind.TIMEOUT:
            return exc.kind not in GATEWAY_KINDS
        needed_s = self.patience_s if exc.sent else min(self.patience_s, self.pool.limits.connect_timeout_s)
        return given_s >= NEARLY * needed_s


def shown(urls: Sequence[str]) -> list[str]:
    """URLs as operators get to see them: what stands in a query may be a key. Each differs from the others."""
    names: list[str] = []
    for url in urls:
        base, mark, _ = url.partition("?")
        name = f"{base}?..." if mark else base
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return names


def path_and_query(url: str) -> bytes:
    """What a URL names at its origin. Raises UnicodeEncodeError."""
    parts = urlsplit(url)
    return ((parts.path or "/") + (f"?{parts.query}" if parts.query else "")).encode("ascii")


class BackendContext(NamedTuple):
    """What every backend is given beside its settings.

    `on_change` is to be called when the tool server says that its tools have changed. `outcomes` takes what becomes of
    deferred calls, each of which ends within `pending_s`. `checker` reads long answers, `lists` long lists of tools.
    `count_dropped` counts a notice to the tool server that is never sent; `memory` counts answers.
    """

    admission: Admission[Server]
    outcomes: Outcomes
    checker: ChildTasks
    lists: Offload
    on_change: Callable[[], None]
    pending_s: float
    count_dropped: Callable[[], None]
    memory: BodyMemory | None = None


def open_admission(
    name: str,
    settings: BackendSettings,
    patience_s: float,
    memory: BodyMemory | None = None,
    kind: type[Admission[Server]] = Admission,
) -> Admission[Server]:
    """The admission to a backend, with connections to all replicas of its tool server; `memory` counts replies."""
    targets = [
        (name, Server(url, open_pool(settings, url, memory), patience_s, name))
        for url, name in zip(settings.addresses, shown(settings.addresses), strict=True)
    ]
    limits = AdmissionLimits(
        concurrency=settings.max_concurrency,
        queue=settings.max_queue,
        queue_timeout_s=settings.queue_timeout_s,
        breaker=BreakerRules(failures=settings.breaker.failures, open_for_s=settings.breaker.open_for_s),
    )
    return kind(name, targets, limits)


def open_pool(settings: BackendSettings, url: str, memory: BodyMemory | None = None) -> Pool:
    """Connections to one server. Admission limits calls; the limit here only holds should that fail."""
    limits = Limits(
        connections=settings.max_concurrency + SPARE_CONNECTIONS,
        connect_timeout_s=settings.connect_timeout_s,
    )
    proxy = proxy_for(settings.proxy, url)
    trusted = open_ssl_context(settings, (url,))
    return Pool(Origin.parse(url), limits, trusted, memory, proxy=proxy, headers=static_headers(settings))


def static_headers(settings: BackendSettings) -> Headers:
    """The headers that every request to the tool server has."""
    pairs = settings.headers.items()
    return tuple((name.lower().encode("ascii"), value.get_secret_value().encode("ascii")) for name, value in pairs)


def open_ssl_context(settings: BackendSettings, urls: Iterable[str]) -> ssl.SSLContext | None:
    """The authorities that a backend trusts, and our certificate; None where no URL begins with https."""
    if not any(Origin.parse(url).is_tls for url in urls):
        return None  # making one reads hundreds of certificates
    return client_context(settings.tls or TlsSettings())


def client_context(files: TlsSettings) -> ssl.SSLContext:
    """The authorities that these settings trust, and our certificate.

    Who names the same files shares one, until a file changes: the system's authorities take 0.8 MB and 15 ms to read.
    """
    paths = (files.ca or ssl.get_default_verify_paths().cafile, files.cert, files.key)
    return _client_context(files, *(None if path is None else _stamp(path) for path in paths))


def _stamp(path: str) -> tuple[int, ...] | None:
    """What differs once a file was written anew."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # whoever reads it says so
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


@lru_cache(SHARED_CONTEXTS)
def _client_context(files: TlsSettings, *_: object) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)  # a `ca` replaces the system's authorities
    context.set_alpn_protocols(["http/1.1"])
    if files.cert is not None:
        context.load_cert_chain(files.cert, files.key)
    return context
