"""Where the numbers are: each child of a metric is a row of cells that whoever counts adds to directly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from gateway.metrics.families import Family


class Cells(Protocol):
    """A row of numbers."""

    def __getitem__(self, index: int, /) -> float: ...

    def __setitem__(self, index: int, value: float, /) -> None: ...


class Series(NamedTuple):
    """One child of a metric, all processes together."""

    family: Family
    labels: tuple[str, ...]
    values: tuple[float, ...]


class Store(Protocol):
    """Makes rows. Asked for each child once; the row is then kept by whoever asked."""

    def row(self, family: Family, labels: tuple[str, ...]) -> Cells: ...

    def read(self) -> Iterator[Series]:
        """All that was counted; gauges that show nothing are left out. May be called in any thread."""
        ...


class LocalStore:
    """Rows of this process, seen by nobody else."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Family, tuple[str, ...]], list[float]] = {}

    def row(self, family: Family, labels: tuple[str, ...]) -> Cells:
        return self._rows.setdefault((family, labels), [0.0] * family.width)

    def read(self) -> Iterator[Series]:
        # In one step, so that no row can be added in the middle of it.
        for (family, labels), row in list(self._rows.items()):
            values = tuple(row)
            if values[0] == values[0]:  # not NaN
                yield Series(family, labels, values)
