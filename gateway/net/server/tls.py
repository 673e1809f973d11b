"""The TLS of the listener for callers, and how its certificates are replaced while it listens."""

from __future__ import annotations

import re
import ssl
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gateway.net.server.options import ServerError

# TLS 1.2 with forward secrecy and authenticated encryption only (RFC 9325 section 4.2). Those of TLS 1.3 all have both.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
CERTIFICATE = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files in PEM: a certificate with its chain, its key, and the authorities of callers.

    With `client_ca` callers must show a certificate, or may without `requires_client`; it must be valid if shown.
    """

    cert: str
    key: str
    client_ca: str | None = None
    requires_client: bool = True


class ClientCertificates(NamedTuple):
    """Which callers get in: whether a certificate is required, and the authorities that may have signed it, in DER."""

    mode: ssl.VerifyMode
    authorities: frozenset[bytes]


class Handshake(ssl.SSLObject):
    """The TLS of one connection."""

    # Called with OpenSSL's word for why the handshake failed, or `UNFINISHED` if the caller left or ran out of time in
    # the middle; not for callers that never sent a byte: they only probe the port.
    refused: Callable[[str], None] | None = None
    entry: ClientCertificates | None = None  # of the moment it began
    steps = 0  # the loop takes the first before anything has arrived, and another whenever something has
    is_over = False

    def do_handshake(self) -> None:
        """Continues the handshake. Raises SSLError; SSLWantReadError while it is the caller's turn."""
        self.steps += 1
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError as exc:
            self._fail(exc.reason or type(exc).__name__)
            raise
        self.is_over = True

    def __del__(self) -> None:
        """Notices that the loop has given the handshake up: it calls nothing, but drops this object."""
        if self.steps > 1 and not self.is_over:
            self._fail("UNFINISHED")

    def _fail(self, why: str) -> None:
        self.is_over = True
        if self.refused is not None:
            self.refused(why)


class ServingContext(ssl.SSLContext):
    """Serves new connections with the certificates that were read last; `take` replaces them by those of another one.

    Each time they are read, a new real context is made: one that is in use cannot forget an authority, and its session
    tickets would let in a caller whose authority is gone. `refused` is called when a handshake has failed.
    """

    _current: ssl.SSLContext
    _entry: ClientCertificates

    def __new__(cls, files: TlsFiles) -> ServingContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, files: TlsFiles) -> None:
        """Raises ServerError when the files cannot be used."""
        self.refused: Callable[[str], None] | None = None
        try:
            self._current, authorities = _context(files), _authorities(files.client_ca)
        except OSError as exc:  # ssl.SSLError is one
            raise ServerError(f"The certificates of server.tls cannot be used: {exc.strerror or exc}.") from exc
        self._entry = ClientCertificates(self._current.verify_mode, authorities)

    def take(self, other: ServingContext) -> None:
        """Serves new connections with the certificates of the other one."""
        self._current, self._entry = other._current, other._entry

    def admits(self, handshake: ssl.SSLObject | None) -> bool:
        """Whether the caller of that handshake would get in today.

        That is so if no authority was removed since, and no more is required.
        """
        then, now = handshake.entry if isinstance(handshake, Handshake) else None, self._entry
        if then is None or then is now or now.mode == ssl.CERT_NONE:
            return True
        return then.mode >= now.mode and then.authorities <= now.authorities

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begins a handshake."""
        handshake = self._current.wrap_bio(incoming, outgoing, server_side=True)
        assert isinstance(handshake, Handshake)
        handshake.refused, handshake.entry = self.refused, self._entry
        return handshake


def _authorities(file: str | None) -> frozenset[bytes]:
    """The certificates in a file. A context does not list those that may sign nothing, which are valid themselves."""
    texts = () if file is None else CERTIFICATE.findall(Path(file).read_bytes())
    return frozenset(b64decode(text) for text in texts)


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = Handshake
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION  # each would cost us a handshake, and costs the caller nothing
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(files.cert, files.key, password=str)  # else OpenSSL asks for one on the terminal
    if files.client_ca is not None:
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if files.requires_client else ssl.CERT_OPTIONAL
    return context
