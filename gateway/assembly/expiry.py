"""When the certificates expire that a configuration names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificates

from gateway.configfile.sections import Section
from gateway.configfile.web import FilePath
from gateway.metrics import GaugeSample
from gateway.metrics.families import CERTIFICATE_EXPIRY
from gateway.settings import Config

OWN, AUTHORITIES = {"cert"}, {"ca", "client_ca"}  # keys that name files of certificates


def expiries(config: Config) -> list[GaugeSample]:
    """One gauge for each key that names a file with certificates; none for a file that cannot be read.

    A chain is good until its first certificate expires, authorities until the last of them does.
    """
    times: dict[tuple[str, bool], float | None] = {}  # thousands of backends may have one authority
    samples = []
    for setting, path, is_own in _files("", config):
        if (path, is_own) not in times:
            times[path, is_own] = _expiry(path, is_own)
        if (at := times[path, is_own]) is not None:
            samples.append(GaugeSample(CERTIFICATE_EXPIRY, (setting,), at))
    return samples


def _files(where: str, settings: object) -> Iterator[tuple[str, str, bool]]:
    """The keys that name files of certificates, the files, and whether these are our own."""
    match settings:
        case Section() | Mapping():
            for name, value in settings.items() if isinstance(settings, Mapping) else settings:
                if not isinstance(value, FilePath):
                    yield from _files(f"{where}.{name}" if where else name, value)
                elif name in OWN or name in AUTHORITIES:
                    yield f"{where}.{name}", value, name in OWN
        case tuple():
            for index, value in enumerate(settings):
                yield from _files(f"{where}[{index}]", value)


def _expiry(path: str, is_own: bool) -> float | None:
    """In seconds since 1970."""
    with suppress(OSError, ValueError):
        read = load_pem_x509_certificates(Path(path).read_bytes())
        return (min if is_own else max)(certificate.not_valid_after_utc.timestamp() for certificate in read)
    return None
