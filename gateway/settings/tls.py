"""Files for TLS: towards servers of the operator's, and towards callers."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterator
from pathlib import Path

from gateway.settings.keys import key, settings
from gateway.settings.kinds import Flag, Text
from gateway.settings.reading import Cursor

PEM = "-----BEGIN "  # RFC 7468, section 2


class FilePath(Text):
    """A regular file that can be read; a relative path starts where the configuration lies.

    It may be absent wherever variables may. Problems quote what the file says: a variable may hold the key itself.
    """

    noun = "path of a file"

    def read(self, cursor: Cursor) -> str:
        name = super().read(cursor)
        if PEM in name:
            raise cursor.refuse("holds a certificate or a key itself; it must be the path of the file that does")
        substitution = cursor.reading.substitution
        path = substitution.base / name
        try:
            if substitution.allow_missing and not path.exists():
                return str(path)
            if not path.is_file():
                raise cursor.refuse(f"names no file: {cursor.raw!r} does not exist or is no regular file")
            with path.open("rb"):
                return str(path)
        except OSError as exc:
            raise cursor.refuse(f"names a file that cannot be read: {exc.strerror}") from None


@settings
class TlsSettings:
    """How a server's certificate is verified, and the one it gets if it wants one. Files in PEM."""

    ca: str | None = key(
        FilePath(), "Certificates of who may sign the server's; left out, those the system trusts.", default=None
    )
    cert: str | None = key(FilePath(), "The gateway's own certificate and its chain.", default=None)
    key: str | None = key(
        FilePath(), "The private key of the gateway's certificate, without a passphrase.", default=None
    )

    def problems(self, _written: Collection[str]) -> Iterator[tuple[str, str]]:
        """What would only be found out when the first connection fails."""
        if self.ca is not None and not _holds_certificates(self.ca):
            yield "ca", "holds no certificate in PEM"
        if (self.cert is None) != (self.key is None):
            yield "cert" if self.key is None else "key", "needs the other one of cert and key"
        elif self.cert and self.key and not _belong_together(self.cert, self.key):
            yield "cert", "and key are no certificate in PEM and its private key without a passphrase"


@settings
class ServerTlsSettings:
    """TLS towards callers. Files in PEM, read again when the configuration is."""

    cert: str = key(FilePath(), "The gateway's certificate and its chain.")
    client_ca: str | None = key(
        FilePath(),
        "Certificates of who may sign those of callers; left out, callers are not asked for any.",
        default=None,
    )
    require_client_cert: bool = key(
        Flag(), "With client_ca: whether a caller without a certificate is turned away.", default=True
    )
    key: str = key(FilePath(), "The private key of the certificate, without a passphrase.")

    def problems(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """What would only be found out when nobody can connect, or when anybody can."""
        if not _belong_together(self.cert, self.key):
            yield "cert", "and key are no certificate in PEM and its private key without a passphrase"
        if self.client_ca is None:
            if "require_client_cert" in written:
                yield "require_client_cert", "has no effect without client_ca"
        elif not _holds_certificates(self.client_ca):
            yield "client_ca", "holds no certificate in PEM"


def _holds_certificates(path: str) -> bool:
    """Whether a file can say whom to trust; one that is absent on purpose may."""
    if not Path(path).is_file():
        return True
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError:  # ssl.SSLError is one
        return False
    return True


def _belong_together(cert: str, key: str) -> bool:
    """Whether two files are a certificate and its key; those that are absent on purpose may be."""
    if not (Path(cert).is_file() and Path(key).is_file()):
        return True
    try:
        # A passphrase is given, if only an empty one: else OpenSSL asks for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password="")
    except OSError:
        return False
    return True
