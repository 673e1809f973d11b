"""Whether files have changed, as far as that shows without reading them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping

from gateway.settings.keys import keys_of
from gateway.settings.tls import FilePath

Fingerprint = tuple[int, int, int, int]  # time of the last change in nanoseconds, size, inode, device
Fingerprints = Mapping[str, Fingerprint | None]


def fingerprints(paths: Iterable[str]) -> Fingerprints:
    """One for each path, None where there is no file. Links are followed: a folder above the file may be swapped."""
    return {path: _fingerprint(path) for path in paths}


def _fingerprint(path: str) -> Fingerprint | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: no path at all, as with a NUL in it
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def named_files(section: object) -> Iterator[str]:
    """The files that settings name by path; they are read when the settings are used."""
    match section:
        case Mapping():
            for value in section.values():
                yield from named_files(value)
        case tuple():
            for value in section:
                yield from named_files(value)
        case _ if dataclasses.is_dataclass(section):
            for key in keys_of(type(section)).values() if _is_section(section) else ():
                value = getattr(section, key.field)
                if isinstance(key.kind, FilePath):
                    yield from () if value is None else (value,)
                else:
                    yield from named_files(value)


def _is_section(value: object) -> bool:
    """Whether it was declared key by key."""
    return all(field.metadata for field in dataclasses.fields(value))  # type: ignore[arg-type]
