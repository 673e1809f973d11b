"""Where the numbers are: one row for each child of a metric, to which the code that counts adds directly.

Each worker process reports what it has counted since its last report (`take`), and the supervisor adds that to rows of
its own (`add`). So what a worker has reported stays counted when it dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gateway.metrics.families import FAMILIES, OTHER, TOOL_CALLS, Family, GaugeSample

Row = list[float]
Key = tuple[Family, tuple[str, ...]]
Counted = tuple[str, tuple[str, ...], Row]  # metric, labels, numbers; as it travels between processes

MERGES: dict[str, Callable[[float, float], float]] = {"sum": float.__add__, "min": min, "max": max}


class Series(NamedTuple):
    """One child of a metric with its numbers at one moment."""

    family: Family
    labels: tuple[str, ...]
    values: tuple[float, ...]


class MetricStore:
    """The rows of one process."""

    def __init__(self) -> None:
        self._rows: dict[Key, Row] = {}
        self._reported: set[Key] = set()
        self._tools: set[tuple[str, str]] = set()

    def row(self, family: Family, labels: tuple[str, ...]) -> Row:
        """The row of a child, made at the first use."""
        return self._rows.setdefault((family, labels), [0.0] * family.width)

    def has_label(self, tool: str, backend: str, most: int) -> bool:
        """Whether a tool is counted under its name: the first `most` tools are, the others as `other`."""
        if (tool, backend) not in self._tools and len(self._tools) < most:
            self._tools.add((tool, backend))
        return (tool, backend) in self._tools

    def read(self) -> Iterator[Series]:
        """Everything that was counted."""
        for (family, labels), row in self._rows.items():
            yield Series(family, labels, tuple(row))

    def take(self, most: int) -> list[Counted]:
        """Empties up to `most` rows, and returns what was in them; empty rows are returned once, to be shown as 0."""
        counts: list[Counted] = []
        for (family, labels), row in self._rows.items():
            if len(counts) == most:
                break
            if any(row) or (family, labels) not in self._reported:
                self._reported.add((family, labels))
                counts.append((family.name, labels, row.copy()))
                row[:] = [0.0] * family.width
        return counts

    def add(self, counts: Iterable[Counted], max_tools: int) -> None:
        """Adds what another process has counted; of the tools of all processes, `max_tools` have a label."""
        for name, labels, values in counts:
            family = FAMILIES.get(name)
            if family is None or (len(labels), len(values)) != (len(family.labels), family.width):
                continue  # another version of the gateway, which was installed since this process began
            row = self.row(family, self._bounded(family, tuple(labels), max_tools))
            for index, value in enumerate(values):
                row[index] += value

    def _bounded(self, family: Family, labels: tuple[str, ...], max_tools: int) -> tuple[str, ...]:
        if family is not TOOL_CALLS:
            return labels
        backend, protocol, tool, outcome = labels
        if tool == OTHER or self.has_label(tool, backend, max_tools):
            return labels
        return backend, protocol, OTHER, outcome


def merge_samples(samples: Iterable[GaugeSample]) -> list[GaugeSample]:
    """One sample of each gauge, of those of several processes."""
    values: dict[Key, float] = {}
    for family, labels, value in samples:
        before = values.get((family, labels))
        values[family, labels] = value if before is None else MERGES[family.merge](before, value)
    return [GaugeSample(family, labels, value) for (family, labels), value in values.items()]
