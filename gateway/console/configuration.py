"""The configuration in use: every key with its value, where that was written, and what `toolgate check` says of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import SecretStr

from gateway.configfile import yamlnode
from gateway.configfile.sections import Section, key_of
from gateway.configfile.substitution import EXPRESSION, Substitution
from gateway.configfile.yamlnode import Node
from gateway.core.errors import ConfigError
from gateway.core.model import Json, JsonObject
from gateway.metrics import Metrics
from gateway.settings import Config
from gateway.settings import load as reading
from gateway.settings.warnings import warnings

MASK = "••••••••"
DEFAULT = "default"
CHANGED = "The file has changed and cannot be used; the last good one stays in use. Lines are those of the new text."
MAX_SETTINGS = 5000
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Names of parts that hold a credential although the type of their values does not say so.
CREDENTIALS = re.compile(r"(^|[._])(authorization|cookie|password|secret|token|api[_-]?key)$", re.IGNORECASE)

DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1024), ("", 1))

Origins = Mapping[str, tuple[int, str]]  # by path: the line, and what is put in there


class ConfigurationPage:
    """Answers the page. `path` is that of the file, None where the configuration came from elsewhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def as_json(self, config: Config, metrics: Metrics) -> JsonObject:
        """The configuration in use. The file is read again, to find the lines; it may take a second if it is large."""
        origins, remarks = self._origins(metrics)
        settings = list(_settings(config, "", self._path, origins))
        remarks += [{"level": "warning", "text": text, "origin": None} for text in warnings(config)]
        return {
            "file": None if self._path is None else str(self._path),
            "read_at": metrics.read_at,
            "settings": settings[:MAX_SETTINGS],
            "truncated": len(settings) > MAX_SETTINGS,
            "remarks": remarks,
        }

    def _origins(self, metrics: Metrics) -> tuple[Origins, list[JsonObject]]:
        """Where the file says what, and what is wrong with it as it is now."""
        if self._path is None:
            return {}, []
        remarks = [_remark("error", text) for text in metrics.reload_problems]
        if remarks:
            remarks.insert(0, _remark("error", CHANGED))
        source = str(self._path)
        try:
            root = reading.parse(reading.read_text(self._path), source)
        except ConfigError:
            return {}, remarks or [_remark("error", "The file cannot be read any more.")]
        try:
            loaded = reading.validate(root, source, Substitution(os.environ, self._path.parent))
            remarks += [_remark("warning", text) for text in loaded.warnings]
        except ConfigError as exc:
            if not remarks:
                remarks = [_remark("error", text) for text in exc.problems]
        return dict(_lines(root, "")), remarks


def _remark(level: str, text: str) -> JsonObject:
    """One line of `toolgate check`; what stands before its first blank is the place it speaks of."""
    place, _, rest = text.partition(" ")
    if re.fullmatch(r".+:\d+:\d+:", place):
        return {"level": level, "text": rest, "origin": place.rpartition(":")[0].rpartition(":")[0]}
    return {"level": level, "text": text, "origin": None}


def _lines(node: Node, path: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """The line of each value of the file, and the names of variables and files that are put into it."""
    sources: list[str] = []
    if isinstance(node.value, yamlnode.MapNode):
        for key, value in node.value:
            if isinstance(key.value, str):
                yield from _lines(value, _joined(path, key.value))
    elif isinstance(node.value, list):
        for index, item in enumerate(node.value):
            yield from _lines(item, f"{path}[{index}]")
    else:
        sources = [f"{match['source']} {match['name']}" for match in EXPRESSION.finditer(node.value) if match["source"]]
    yield path, (node.mark.line, ", ".join(sources))


def _settings(value: object, path: str, file: Path | None, origins: Origins) -> Iterator[JsonObject]:
    """Each value of the configuration in use, in the order of the reference."""
    match value:
        case Section():
            for name, part in value:
                field = type(value).model_fields[name]
                written = _written(name, part) if isinstance(part, int | float) else part
                yield from _settings(written, _joined(path, field.alias or key_of(name)), file, origins)
        case Mapping() if value:
            for name, part in value.items():
                yield from _settings(part, _joined(path, str(name)), file, origins)
        case tuple() | list() if value and any(isinstance(part, Section) for part in value):
            for index, part in enumerate(value):
                yield from _settings(part, f"{path}[{index}]", file, origins)
        case _:
            yield _setting(value, path, file, origins)


def _setting(value: object, path: str, file: Path | None, origins: Origins) -> JsonObject:
    is_secret = isinstance(value, SecretStr) or _holds_secret(value) or CREDENTIALS.search(path) is not None
    return {
        "path": path,
        "value": MASK if is_secret and value is not None else _plain(value),
        "origin": _origin(path, file, origins),
        "is_secret": is_secret,
    }


def _written(name: str, number: float) -> Json:
    """A number as a file would have it, by the unit in the name of its attribute."""
    if isinstance(number, bool):
        return number
    if name.endswith("_s"):
        return _in_units(round(number * 1000), DURATIONS)
    return _in_units(int(number), SIZES) if name.endswith("_bytes") else number


def _in_units(number: int, units: Sequence[tuple[str, int]]) -> str:
    """In the largest unit that leaves no fraction."""
    unit, each = next((unit, each) for unit, each in units if number % each == 0)
    return f"{number // each}{unit}" if number else f"0{units[-1][0]}"


def _holds_secret(value: object) -> bool:
    return isinstance(value, tuple | list | frozenset) and any(isinstance(part, SecretStr) for part in value)


def _plain(value: object) -> Json:
    match value:
        case None | bool() | int() | float():
            return value
        case tuple() | list():
            return [_plain(part) for part in value]
        case frozenset() | set():
            return sorted(str(part) for part in value)
        case Mapping():
            return {str(name): _plain(part) for name, part in value.items()}
        case re.Pattern():
            return value.pattern
        case _:
            return str(value)


def _origin(path: str, file: Path | None, origins: Origins) -> str:
    """Where a value was written."""
    found = origins.get(path)
    if found is None or file is None:
        return DEFAULT
    line, sources = found
    return f"{file.name}:{line}" + (f" ({sources})" if sources else "")


def _joined(path: str, name: str) -> str:
    step = name if PLAIN_NAME.fullmatch(name) else f'"{name}"'
    return f"{path}.{step}" if path else step
