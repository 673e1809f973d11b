"""The configuration described: as JSON Schema (draft 2020-12) for editors, and as a page in Markdown for people.

Pydantic makes the schema from the models, and the page is made from the schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gateway.configfile.values import Schema
from gateway.protocols import PROTOCOLS
from gateway.upstream.settings import BackendSettings

TAG = "protocol"
HEAD = ("| key | type | default | meaning |", "|---|---|---|---|")

PREFACE = """# Configuration reference

<!-- Made by `python -m gateway.settings.load --markdown > docs/configuration.md`; change gateway/settings. -->

For operators: every key that the configuration file may have, with its type, its default and what it means.

The configuration is one YAML file, for example:

```yaml
auth: none
backends:
  office: {protocol: otc, url: "http://127.0.0.1:9101", timeout: 10s}
routes:
  - {tools: "Calculator.*", backend: office}
```

If something is wrong in it, Toolgate reports all problems at once, as `file:line:col: path: what is wrong`. Unknown
keys are errors. [`config/gateway.yaml`](../config/gateway.yaml) is an example with every key, and
[`config/gateway.schema.json`](../config/gateway.schema.json) lets an editor complete them.

- **Durations** are whole numbers with a unit: `500ms`, `30s`, `5m`, `1h`, `1d`.
- **Sizes** are bytes, or whole numbers with a unit: `512`, `64KiB`, `1MiB`, `1GiB`.
- **Values from elsewhere.** `${env:NAME}` stands for an environment variable, `${file:/path}` for the content of a
  file. A relative path starts at the folder of the configuration. A newline at the end of the content is dropped. To
  write a dollar sign, write `$$`.
- **Reading it again.** On SIGHUP the gateway reads the file again, with all files that it names. With
  `reload.watch: true` it also does so after a change. Changes of `state`, `telemetry` and `usage`, and of `host`,
  `port`, `workers` and `admin` of `server`, take effect at the next start.
- **Defaults.** In the tables, *none* means that a key has no default value. The meaning says what applies then."""

BACKENDS = "backends.<name>."
EVERY_BACKEND = "Keys of every backend. You choose `<name>`: letters, digits, `-` and `_`."


class _Generator(GenerateJsonSchema):
    """JSON Schema without titles made of Python names; the only titles are those of `values`."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        section = super().model_schema(schema)
        return {name: part for name, part in section.items() if name != "title"}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        values = self.generate_inner(schema["values_schema"])  # pydantic leaves out their title
        return {**super().dict_schema(schema), "additionalProperties": values}


def json_schema(root: type[BaseModel]) -> Schema:
    """Describes a file with the keys of `root`."""
    schema = root.model_json_schema(schema_generator=_Generator)
    definitions = schema.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Toolgate configuration",
        **schema,
        "$defs": definitions,
    }


def markdown(schema: Schema) -> str:
    """The whole page, of a schema as `json_schema` makes it."""
    tables = _ReferencePage(schema["$defs"]).tables(
        "The file", "The keys at its top.", schema, schema["properties"], ""
    )
    page = "\n\n".join([PREFACE, *tables]) + "\n"
    for specification in filter(None, (protocol.specification for protocol in PROTOCOLS.values())):
        short, name, url = specification  # descriptions name them so; only the page has links
        page = page.replace(f"{short} ({name})", f"[{short}]({url}) ({name})")
    return page


class _ReferencePage:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._places: dict[str, str] = {}  # of sections by definition, those that backends have
        self._done: set[str] = set()  # paths of tables

    def tables(
        self,
        title: str,
        sentence: str,
        section: Schema,
        keys: Mapping[str, Schema],
        path: str,
        elsewhere: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[str]:
        """The table of a section's keys, then those of all sections that these keys have.

        `path` leads to the section; `elsewhere` are the paths of keys that are described under another than theirs.
        """
        required = section.get("required", ())
        paths = {name: f"{path}.{name}".lstrip(".") for name in keys} | dict(elsewhere)
        rows = [
            f"| `{name}` | {self._type(value, paths[name])} | "
            f"{'**required**' if name in required else _default(value)} | {_escaped(value['description'])} |"
            for name, value in keys.items()
        ]
        yield "\n".join([f"## {title}", "", _escaped(sentence), "", *HEAD, *rows])
        for name, value in keys.items():
            yield from self._sections(value, paths[name])

    def _sections(self, value: Schema, path: str) -> Iterator[str]:
        match value:
            case {"$ref": ref}:
                if self._place(ref, path) != path or path in self._done:
                    return
                self._done.add(path)
                section = self._definition(ref)
                yield from self.tables(f"`{path}`", section["description"], section, section["properties"], path)
            case {"items": item}:
                yield from self._sections(item, f"{path}[]")
            case {"additionalProperties": {"allOf": chosen}}:
                yield from self._backends(chosen, f"{path}.<name>")
            case {"additionalProperties": dict() as inner}:
                yield from self._sections(inner, f"{path}.<name>")
            case {"oneOf": sections} if path not in self._done:
                self._done.add(path)
                keys = dict(self._only_key(section["$ref"]) for section in sections)
                yield from self.tables(f"`{path}`", "Exactly one of these keys.", {}, keys, path.partition("`")[0])
            case {"anyOf": options}:
                for option in options:
                    yield from self._sections(option, path)

    def _backends(self, chosen: Sequence[Schema], path: str) -> Iterator[str]:
        """First what all protocols have, then for each what it has besides, or otherwise."""
        common = dict(BackendSettings.model_json_schema(schema_generator=_Generator)["properties"])
        del common[TAG]
        yield from self.tables(f"`{path}`", EVERY_BACKEND, {}, common, path)
        for choice in chosen:
            word, section = choice["if"]["properties"][TAG]["const"], self._definition(choice["then"]["$ref"])
            own = {name: value for name, value in section["properties"].items() if value != common.get(name)}
            title = f"{path}` with `{TAG}: {word}"
            # A key that others have too, with sections of its own.
            elsewhere = {
                name: f"{path}.{name}` with `{TAG}: {word}"
                for name, value in own.items()
                if name in common and not _references(value) <= _references(common[name])
            }
            yield from self.tables(f"`{title}`", section["description"], section, own, path, elsewhere)

    def _only_key(self, ref: str) -> tuple[str, Schema]:
        """The key of a section that has one, described by both sentences."""
        section = self._definition(ref)
        ((name, value),) = section["properties"].items()
        return name, {**value, "description": f"{section['description']} {value['description']}"}

    def _type(self, value: Schema, path: str) -> str:
        """What may stand there, in words; `path` is where, so that sections below can be linked."""
        section = f"[section](#{anchor(self._place(value['$ref'], path) if '$ref' in value else path)})"
        match value:
            case {"anyOf": [{"enum": words}, _]}:
                return _either([f"`{word}`" for word in words])
            case {"anyOf": [{"const": word}, _, _]}:
                return f"`{word}`, or a {section}"
            case {"anyOf": [inner, {"type": "null"}]}:
                return self._type(inner, path)
            case {"anyOf": [item, {"items": _}]}:
                return f"{self._type(item, path)}, or a list of them"
            case {"oneOf": sections}:
                names = [f"`{self._only_key(option['$ref'])[0]}`" for option in sections]
                return f"{_either(names)} in a {section}"
            case {"$ref": _} | {"allOf": _}:
                return section
            case {"items": item}:
                return f"list; each: {self._type(item, f'{path}[]')}"
            case {"additionalProperties": inner, "propertyNames": _}:
                return f"by name; each: {self._type(inner, f'{path}.<name>')}"
            case {"type": ["boolean", _]}:
                return "`true` or `false`"
        return _escaped(value["title"])

    def _place(self, ref: str, path: str) -> str:
        """Where a section is described: at its own path, but once for all keys of backends."""
        return self._places.setdefault(ref, path) if path.startswith(BACKENDS) else path

    def _definition(self, ref: str) -> Schema:
        return self._definitions[ref.removeprefix("#/$defs/")]


def _references(value: Schema) -> set[str]:
    """The sections that stand right below a key."""
    return set(re.findall(r"#/\$defs/\w+", str(value)))


def _default(value: Schema) -> str:
    """How the default would be written. A section's is what its own keys say."""
    if "default" not in value:
        return "one of them"
    match value:
        case {"default": None}:
            return "*none*"
        case {"default": {}, "$ref": _}:
            return "see the section"
        case {"default": bool() as flag}:
            return "`true`" if flag else "`false`"
        case {"default": list() as items}:
            return f"`[{', '.join(items)}]`"
    return f"`{value['default']}`"


def _either(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _escaped(text: str) -> str:
    """Text for a cell of a table: what stands in backticks stays as it is."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([|*<])", r"\\\1", part) for part in parts)


def anchor(title: str) -> str:
    """The fragment that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
