"""Numbers that several worker processes share through a directory, so that any process can show the sum.

Each worker counts in a memory-mapped file of its own, `<name>.cells`; `<name>.rows` says what stands where, one JSON
array `[metric, labels, first cell, cells]` per line, written after its cells are there. A worker holds a lock on the
latter, which the kernel takes away when it dies, however it dies. What a dead worker has counted stays, what its gauges
showed does not count any more; the next worker that starts takes its files over and goes on counting there, so that
there are never more files than there were workers at a time.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gateway.metrics.families import FAMILIES, Family
from gateway.metrics.store import Cells, Series
from gateway.metrics.tools import SharedTools

log = logging.getLogger("gateway.metrics")

CELL = 8  # bytes of a double
CHUNK = 64 * 1024  # bytes by which a file grows: rows of some 500 histograms
MAX_BYTES = 256 * CHUNK  # of one worker: 2 million cells, above what 10,000 tools with all their outcomes take
ROWS, CELLS = ".rows", ".cells"
TOOLS = "tools"  # which of them are told apart
NOTHING = float("nan")
MERGES: dict[str, Callable[[float, float], float]] = {"sum": float.__add__, "min": min, "max": max}


class _Place(NamedTuple):
    family: Family
    labels: tuple[str, ...]
    start: int


class SharedStore:
    """This worker's rows. Made after the process was forked; `read` shows those of all workers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._tools = SharedTools(directory / TOOLS)
        self._rows_file = _take_over(directory) or _begin(directory)
        self._cells_file = Path(self._rows_file.name).with_suffix(CELLS).open("r+b")
        self._chunks: dict[int, memoryview[float]] = {}
        self._rows: dict[tuple[Family, tuple[str, ...]], Cells] = {}
        self._used = 0  # cells
        text = self._rows_file.read()
        self._rows_file.truncate(text.rfind(b"\n") + 1)  # half a line of one that died while it wrote
        self._rows_file.seek(0, os.SEEK_END)
        for place in _places(text):
            self._used = max(self._used, place.start + place.family.width)
            if self._fits(place):
                row = self._rows[place.family, place.labels] = self._map(place.start, place.family.width)
                if place.family.kind == "gauge":
                    row[0] = NOTHING

    def row(self, family: Family, labels: tuple[str, ...]) -> Cells:
        row = self._rows.get((family, labels))
        if row is None:
            try:
                row = self._add(family, labels)
            except OSError as exc:  # no room left; a call does not fail because it cannot be counted
                log.warning("a metric cannot be shared and is lost", extra={"metric": family.name, "reason": str(exc)})
                row = [0.0] * family.width
            self._rows[family, labels] = row
        return row

    def tell_apart(self, tool: str, backend: str, most: int) -> bool:
        try:
            return self._tools.tell_apart(tool, backend, most)
        except OSError:  # no room left: where that is, rows are warned of
            return False

    def read(self) -> Iterator[Series]:
        return read_shared(self._directory)

    def close(self) -> None:
        """Lets go of the files: from here on this worker is as good as dead."""
        self._rows_file.close()
        self._cells_file.close()
        self._tools.close()

    def _add(self, family: Family, labels: tuple[str, ...]) -> Cells:
        start, width = self._used, family.width
        if start // (CHUNK // CELL) != (start + width - 1) // (CHUNK // CELL):  # a row lies within one chunk
            start = (start // (CHUNK // CELL) + 1) * (CHUNK // CELL)
        row = self._map(start, width)
        if family.kind == "gauge":
            row[0] = NOTHING
        line = json.dumps([family.name, labels, start, width]).encode() + b"\n"
        self._rows_file.write(line)
        self._rows_file.flush()
        self._used = start + width
        return row

    def _map(self, start: int, width: int) -> memoryview[float]:
        """The cells as memory. Raises OSError when the file cannot grow."""
        first = start * CELL // CHUNK * CHUNK
        chunk = self._chunks.get(first)
        if chunk is None:
            if first >= MAX_BYTES:
                raise OSError("too many metrics")
            # Room is taken now: memory that turns out not to fit on the disk would kill the process when written.
            os.posix_fallocate(self._cells_file.fileno(), first, CHUNK)
            chunk = memoryview(mmap.mmap(self._cells_file.fileno(), CHUNK, offset=first)).cast("d")
            self._chunks[first] = chunk
        offset = start - first // CELL
        return chunk[offset : offset + width]

    def _fits(self, place: _Place) -> bool:
        return (place.start + place.family.width) * CELL <= os.fstat(self._cells_file.fileno()).st_size


def _take_over(directory: Path) -> BinaryIO | None:
    """The files of a worker that has died, if there is one; from here on they are ours."""
    for path in sorted(directory.glob(f"*{ROWS}")):
        with suppress(FileNotFoundError):
            rows = path.open("r+b")
            if _lock(rows, fcntl.LOCK_EX) and path.with_suffix(CELLS).exists():
                return rows
            rows.close()
    return None


def _begin(directory: Path) -> BinaryIO:
    """New files, which nobody else has."""
    while True:
        path = directory / f"{os.getpid()}-{secrets.token_hex(4)}{ROWS}"
        path.with_suffix(CELLS).touch()
        rows = path.open("x+b")
        if _lock(rows, fcntl.LOCK_EX):
            return rows
        rows.close()  # somebody who starts at the same time took it for a dead worker's


def _lock(file: BinaryIO, mode: int) -> bool:
    """Locks a file; False if somebody else has."""
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _places(text: bytes) -> Iterator[_Place]:
    """What the whole lines of a `.rows` file say, without what another version has counted otherwise."""
    for line in text[: text.rfind(b"\n") + 1].splitlines():
        name, labels, start, width = json.loads(line)
        family = FAMILIES.get(name)
        if family is not None and width == family.width and len(labels) == len(family.labels):
            yield _Place(family, tuple(labels), start)


def read_shared(directory: Path) -> Iterator[Series]:
    """What all workers have counted together, and what the gauges of those that live show."""
    found: dict[tuple[Family, tuple[str, ...]], tuple[float, ...]] = {}
    for family, labels, values in _all(directory):
        before = found.get((family, labels))
        merge = MERGES[family.merge]
        found[family, labels] = values if before is None else tuple(map(merge, before, values))
    return (Series(family, labels, values) for (family, labels), values in found.items())


def _all(directory: Path) -> Iterator[Series]:
    for path in sorted(directory.glob(f"*{ROWS}")):
        try:
            with path.open("rb") as rows:
                is_alive = not _lock(rows, fcntl.LOCK_SH)
                text = rows.read()
            data = path.with_suffix(CELLS).read_bytes()
        except FileNotFoundError:
            continue
        cells = memoryview(data[: len(data) // CELL * CELL]).cast("d")
        yield from _of_worker(_places(text), cells, is_alive=is_alive)


def _of_worker(places: Iterable[_Place], cells: Sequence[float], *, is_alive: bool) -> Iterator[Series]:
    for family, labels, start in places:
        values = tuple(cells[start : start + family.width])
        if len(values) < family.width or (family.kind == "gauge" and not is_alive):
            continue
        if values[0] == values[0]:  # not NaN
            yield Series(family, labels, values)
