"""Certificates for tests, as files in PEM."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from gateway.net.server import TlsFiles


class Authority:
    """Signs certificates and writes them into a directory."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self.signing = trustme.CA()
        self.path = self._write(f"{name}.pem", self.signing.cert_pem)
        self._issued = 0

    def issue(self, *names: str, expired: bool = False) -> tuple[str, str]:
        """Files of a certificate with its chain and of its key, for those hosts or addresses."""
        until = datetime.now(UTC) - timedelta(days=1) if expired else None
        since = datetime.now(UTC) - timedelta(days=2) if expired else None
        leaf = self.signing.issue_cert(*names, not_before=since, not_after=until)
        self._issued += 1
        name = f"{Path(self.path).stem}-{self._issued}"
        return self._write(f"{name}.pem", *leaf.cert_chain_pems), self._write(f"{name}-key.pem", leaf.private_key_pem)

    def serving(self, *names: str, client_ca: str | None = None, requires_client: bool = True) -> TlsFiles:
        """What a server of those names presents."""
        cert, key = self.issue(*(names or ("127.0.0.1", "localhost")))
        return TlsFiles(cert=cert, key=key, client_ca=client_ca, requires_client=requires_client)

    def trusting(self, shown: tuple[str, str] | None = None) -> ssl.SSLContext:
        """A client that trusts this authority only, and shows a certificate if it has one."""
        context = ssl.create_default_context(cafile=self.path)
        if shown is not None:
            context.load_cert_chain(*shown)
        return context

    def alone(self, name: str) -> tuple[str, str]:
        """Files of a self-signed certificate that may sign no other."""
        key, named = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        unsigned = x509.CertificateBuilder(named, named, key.public_key(), x509.random_serial_number())
        whole = unsigned.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        certificate = trustme.Blob(whole.sign(key, SHA256()).public_bytes(Encoding.PEM))
        return self._write(f"{name}.pem", certificate), self._write(f"{name}-key.pem", trustme.Blob(encoded))

    def _write(self, name: str, *blobs: trustme.Blob) -> str:
        path = self.directory / name
        path.write_bytes(b"".join(blob.bytes() for blob in blobs))
        return str(path)
