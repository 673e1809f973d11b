"""The declared keys as a page for people: every section, key, type, default and meaning, in Markdown.

Walks the same declarations as the reader and the JSON Schema, so that the page cannot say anything else than they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.settings.backends import PROTOCOLS, BackendSettings
from gateway.settings.groups import ListOf, MapOf, OneOf, OrWord, Section, Tagged
from gateway.settings.keys import Key, keys_of
from gateway.settings.kinds import Choice, Duration, Flag, Integer, Kind, SecretText, Size, Text

TAG = "protocol"
HEAD = ("| key | type | default | meaning |", "|---|---|---|---|")

PREFACE = """# Configuration reference

<!-- Made by `python -m gateway.config --markdown > docs/configuration.md`; a change belongs into gateway/settings. -->

For operators: every key that the file may have, with its type, its default and what it means.

One YAML file, validated whole: every problem is told at once, as `file:line:col: path: what is wrong`. Unknown keys are
errors. [`config/gateway.yaml`](../config/gateway.yaml) is an example with every key, and
[`config/gateway.schema.json`](../config/gateway.schema.json) lets an editor complete them.

- **Durations** are whole numbers with a unit: `500ms`, `30s`, `5m`, `1h`, `1d`. **Sizes** are bytes, or have a unit:
  `512`, `64KiB`, `1MiB`, `1GiB`.
- `${env:NAME}` and `${file:/path}` are put in when the file is loaded. A relative path starts where the file lies, a
  newline at the end of a file is dropped, and `$$` is one dollar sign.
- SIGHUP has the file and what it names read again, and so does a change with `reload.watch: true`. What stands under
  `state`, and `host`, `port`, `workers` and `admin` of `server`, take effect at the next start.
- In the tables, *left out* is a default that no file can say: what then holds is in the meaning."""

EVERY_BACKEND = "Keys of every backend. `<name>` is yours: letters, digits, `-` and `_`."


def markdown(root: type[Any]) -> str:
    """The whole page. `root` is the class of the file's top level."""
    parts = [PREFACE, _part("The file", keys_of(root), "", "What may stand at the top.")]
    for key in keys_of(root).values():
        parts += _parts_of(key.kind, key.name)
    return "\n\n".join(parts) + "\n"


def _parts_of(kind: Kind[Any], path: str) -> Iterator[str]:
    """The sections that values of a kind have, and those below them."""
    match kind:
        case Section():
            yield _part(f"`{path}`", kind.keys, path, _sentence(kind.cls))
            for key in kind.keys.values():
                yield from _parts_of(key.kind, f"{path}.{key.name}")
        case OrWord():
            yield from _parts_of(kind.section, path)
        case ListOf():
            yield from _parts_of(kind.item, f"{path}[]")
        case MapOf():
            yield from _parts_of(kind.value, f"{path}.<name>")
        case OneOf():
            yield _one_of(kind, path)
            for section in kind.sections.values():
                for key in section.keys.values():
                    yield from _parts_of(key.kind, f"{path}.{key.name}")
        case Tagged():
            yield from _backends(path)


def _backends(path: str) -> Iterator[str]:
    """First what all protocols have, then for each what it has besides, or otherwise."""
    common = {name: key for name, key in keys_of(BackendSettings).items() if name != TAG}
    yield _part(f"`{path}`", common, path, EVERY_BACKEND)
    for key in common.values():
        yield from _parts_of(key.kind, f"{path}.{key.name}")
    for word, cls in PROTOCOLS.items():
        own = {name: key for name, key in keys_of(cls).items() if not _same(key, common.get(name))}
        yield _part(f"`{path}` with `{TAG}: {word}`", own, path, _sentence(cls))


def _one_of(kind: OneOf[Any], path: str) -> str:
    rows = [
        _row(key, f"{path}.{key.name}", needed="one of them", meaning=f"{section.cls.__doc__} {key.doc}")
        for section in kind.sections.values()
        for key in section.keys.values()
    ]
    return "\n".join([f"## `{path}`", "", "Exactly one of these keys.", "", *HEAD, *rows])


def _same(key: Key, other: Key | None) -> bool:
    return other is not None and (key.doc, _type_of(key.kind, "")) == (other.doc, _type_of(other.kind, ""))


def _part(title: str, keys: Mapping[str, Key], path: str, sentence: str) -> str:
    rows = [_row(key, f"{path}.{key.name}" if path else key.name) for key in keys.values()]
    return "\n".join([f"## {title}", "", sentence, "", *HEAD, *rows])


def _row(key: Key, path: str, *, needed: str = "**required**", meaning: str = "") -> str:
    default = needed if key.required else _default(key)
    cells = (f"`{key.name}`", _type_of(key.kind, path), default, _escaped(meaning or key.doc))
    return f"| {' | '.join(cells)} |"


def _default(key: Key) -> str:
    """How the default would be written. A section's is what its own keys say."""
    match key.default:
        case None:
            return "*left out*"
        case {} if isinstance(key.kind, Section):
            return "see there"
        case bool():
            return "`true`" if key.default else "`false`"
        case list():
            return f"`[{', '.join(key.default)}]`"
        case _:
            return f"`{key.default}`"


def _type_of(kind: Kind[Any], path: str) -> str:
    """What may stand there, in words; `path` is where, so that sections below can be linked. Raises TypeError."""
    section = f"[section](#{anchor(path)})"
    match kind:
        case Section() | Tagged():
            return section
        case OrWord():
            return f"`{kind.word}`, or a {section}"
        case OneOf():
            return f"{_either([f'`{name}`' for name in kind.sections])} in a {section}"
        case ListOf():
            return f"list; each: {_type_of(kind.item, f'{path}[]')}"
        case MapOf():
            return f"by name; each: {_type_of(kind.value, f'{path}.<name>')}"
    return _escaped(kind.noun) if kind.noun else _value(kind)


def _value(kind: Kind[Any]) -> str:
    """The same for a value without parts."""
    match kind:
        case Flag():
            return "`true` or `false`"
        case Choice():
            return _either([f"`{word}`" for word in kind.words])
        case Integer():
            return f"whole number from {kind.low} to {kind.high}"
        case Duration():
            return f"duration {kind.range.words}"
        case Size():
            return f"size {kind.range.words}"
        case SecretText():
            return f"secret{_at_least(kind)}"
        case Text():
            return _escaped(kind.must.removeprefix("must be ")) if kind.must.startswith("must be ") else "text"
    raise TypeError(f"{type(kind).__name__} says not what its values are called")


def _at_least(kind: SecretText) -> str:
    if kind.characters > 1:
        return f" of at least {kind.characters} characters"
    return f" of at least {kind.bytes_} bytes" if kind.bytes_ > 1 else ""


def _either(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _sentence(cls: type[Any]) -> str:
    return _escaped(" ".join((cls.__doc__ or "").split()))


def _escaped(text: str) -> str:
    """Text for a cell of a table: what stands in backticks stays as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([|*<])", r"\\\1", part) for part in parts)


def anchor(title: str) -> str:
    """The fragment that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
