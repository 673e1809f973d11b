"""Files for TLS: towards servers of the operator's, and towards callers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from gateway.settings.cursor import Cursor
from gateway.settings.sections import Section, setting
from gateway.settings.substitution import UnfitError
from gateway.settings.values import Flag, Text

PEM = "-----BEGIN "  # RFC 7468, section 2


class FilePath(str):
    """The path of a regular file that could be read when the configuration was."""

    __slots__ = ()


def _readable(value: str, cursor: Cursor) -> FilePath:
    """A relative path starts where the configuration lies; a file may be absent wherever variables may.

    Problems quote what the configuration says: a variable may hold the key itself.
    """
    if PEM in value:
        raise UnfitError("holds a certificate or a key itself; it must be the path of the file that does")
    substitution = cursor.context.substitution
    path = substitution.base / value
    try:
        if path.is_file():
            path.open("rb").close()
        elif path.exists() or not substitution.allow_missing:
            raise UnfitError(f"names no file: {cursor.raw!r} does not exist or is no regular file")
    except OSError as exc:
        raise UnfitError(f"names a file that cannot be read: {exc.strerror}") from None
    return FilePath(path)


File = Annotated[FilePath, Text(title="path of a file", resolve=_readable)]


class TlsSettings(Section):
    """How a server's certificate is verified, and the one it gets if it wants one. Files in PEM."""

    ca: File | None = setting(None, "Certificates of who may sign the server's; left out, those the system trusts.")
    cert: File | None = setting(None, "The gateway's own certificate and its chain.")
    key: File | None = setting(None, "The private key of the gateway's certificate, without a passphrase.")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Finds files that no connection could use."""
        if self.ca is not None and not _holds_certificates(self.ca):
            yield "ca", "holds no certificate in PEM"
        if (self.cert is None) != (self.key is None):
            yield "cert" if self.key is None else "key", "needs the other one of cert and key"
        elif self.cert and self.key and not _belong_together(self.cert, self.key):
            yield "cert", "and key are no certificate in PEM and its private key without a passphrase"


class ServerTlsSettings(Section):
    """TLS towards callers. Files in PEM, read again when the configuration is."""

    cert: File = setting(..., "The gateway's certificate and its chain.")
    client_ca: File | None = setting(
        None, "Certificates of who may sign those of callers; left out, callers are not asked for any."
    )
    require_client_cert: Flag = setting(True, "With client_ca: whether a caller without a certificate is turned away.")
    key: File = setting(..., "The private key of the certificate, without a passphrase.")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Finds files that no connection could use, and a key without effect."""
        if not _belong_together(self.cert, self.key):
            yield "cert", "and key are no certificate in PEM and its private key without a passphrase"
        if self.client_ca is None:
            if "require_client_cert" in self.model_fields_set:
                yield "require_client_cert", "has no effect without client_ca"
        elif not _holds_certificates(self.client_ca):
            yield "client_ca", "holds no certificate in PEM"


def _holds_certificates(path: str) -> bool:
    """Whether a file holds certificates in PEM; true for one that is absent, which was allowed."""
    if not Path(path).is_file():
        return True
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError:  # ssl.SSLError is one
        return False
    return True


def _belong_together(cert: str, key: str) -> bool:
    """Whether two files are a certificate and its key; true if one is absent, which was allowed."""
    if not (Path(cert).is_file() and Path(key).is_file()):
        return True
    try:
        # A passphrase is given, if only an empty one: else OpenSSL asks for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password="")
    except OSError:
        return False
    return True
