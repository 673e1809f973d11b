"""Which files settings name, and fingerprints of files, which show whether they have changed without reading them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from gateway.configfile.sections import Section
from gateway.configfile.web import FilePath

Fingerprint = tuple[int, int, int, int]  # time of the last change in nanoseconds, size, inode, device
Fingerprints = Mapping[str, Fingerprint | None]


def fingerprints(paths: Iterable[str]) -> Fingerprints:
    """One for each path, None where there is no file. Links are followed: a folder above the file may be swapped."""
    return {path: _fingerprint(path) for path in paths}


def _fingerprint(path: str) -> Fingerprint | None:
    try:
        stat = os.stat(path)
    except (OSError, ValueError):  # ValueError: no path at all, as with a NUL in it
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_dev


def named_files(settings: object) -> Iterator[str]:
    """The paths of files that settings name, and that are read when the settings are used."""
    match settings:
        case FilePath():
            yield settings
        case Mapping():
            for value in settings.values():
                yield from named_files(value)
        case tuple():
            for value in settings:
                yield from named_files(value)
        case Section():
            for _, value in settings:
                yield from named_files(value)
