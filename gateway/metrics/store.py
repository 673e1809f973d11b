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

    def tell_apart(self, tool: str, backend: str, most: int) -> bool:
        """Whether a tool is counted under its name: the first `most` that this is asked about are."""
        ...

    def read(self) -> Iterator[Series]:
        """All that was counted; gauges that show nothing are left out. May be called in any thread."""
        ...


class LocalStore:
    """Rows of this process, seen by nobody else."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Family, tuple[str, ...]], list[float]] = {}
        self._tools: set[tuple[str, str]] = set()

    def row(self, family: Family, labels: tuple[str, ...]) -> Cells:
        return self._rows.setdefault((family, labels), [0.0] * family.width)

    def tell_apart(self, tool: str, backend: str, most: int) -> bool:
        if (tool, backend) not in self._tools and len(self._tools) < most:
            self._tools.add((tool, backend))
        return (tool, backend) in self._tools

    def read(self) -> Iterator[Series]:
        # In one step, so that no row can be added in the middle of it.
        for (family, labels), row in list(self._rows.items()):
            values = tuple(row)
            if values[0] == values[0]:  # not NaN
                yield Series(family, labels, values)
