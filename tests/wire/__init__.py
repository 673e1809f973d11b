"""Wire examples as data, and how tests read them.

`<dialect>/*.json` holds one call each, `{spec, sent, call, answered, result}`: what a caller sends (`path`, `headers`,
`body`), the neutral call it means, what is answered (`status`, `headers`, `body`), and the neutral result, either the
members of a `ToolResult` or `{"refused": ...}` with those of a `GatewayError`. Members that have their default are
left out. `<dialect>/definitions/*.json` holds one listed tool each, `{spec, listed, definition}`;
`foreign/definitions/` what other programs list and the gateway only reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import ToolCall, ToolDefinition, ToolResult
from gateway.core.wire import Head, WireReply

T = TypeVar("T", bound=msgspec.Struct)

ROOT = Path(__file__).parent
DIALECTS = ("rfc", "otc", "oxp", "oxp-env", "lc")
JSON_HEADERS = {"content-type": "application/json", "cache-control": "no-store"}


class CallExample(NamedTuple):
    """One file of `<dialect>/`."""

    dialect: str
    head: Head
    body: Any
    call: ToolCall
    answered: WireReply
    outcome: ToolResult | GatewayError


class DefinitionExample(NamedTuple):
    """One file of `<dialect>/definitions/`."""

    dialect: str
    listed: Any
    definition: ToolDefinition


def call_examples() -> dict[str, CallExample]:
    """Every call, by `<dialect>/<name>`."""
    paths = sorted(path for dialect in DIALECTS for path in (ROOT / dialect).glob("*.json"))
    return {f"{path.parent.name}/{path.stem}": _call_example(path.parent.name, _read(path)) for path in paths}


def definition_examples(*dialects: str) -> dict[str, DefinitionExample]:
    """Every listed tool, by `<dialect>/<name>`."""
    paths = sorted(path for dialect in dialects for path in (ROOT / dialect / "definitions").glob("*.json"))
    return {f"{path.parts[-3]}/{path.stem}": _definition_example(path.parts[-3], _read(path)) for path in paths}


def canonical(value: Any) -> str:
    """A text that is the same for the same JSON; unlike `==` it tells 1, 1.0 and true apart."""
    return json.dumps(value, sort_keys=True)


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _call_example(dialect: str, raw: Mapping[str, Any]) -> CallExample:
    sent, answered = raw["sent"], raw["answered"]
    first = sent["path"].split("/")[1]
    prefix = first if first in DIALECTS else None
    path = sent["path"].removeprefix(f"/{prefix}")
    headers = {name.encode(): value.encode() for name, value in sent["headers"].items()}
    return CallExample(
        dialect=dialect,
        head=Head(method="POST", path=path, headers=headers, dialect=prefix),
        body=sent["body"],
        call=_exactly(ToolCall, raw["call"]),
        answered=WireReply(
            status=answered["status"],
            headers=tuple((k.encode(), v.encode()) for k, v in (JSON_HEADERS | answered["headers"]).items()),
            body=json.dumps(answered["body"]).encode(),
        ),
        outcome=_outcome(raw["result"]),
    )


def _outcome(raw: dict[str, Any]) -> ToolResult | GatewayError:
    if "refused" not in raw:
        return _exactly(ToolResult, raw)
    refused = dict(raw["refused"])
    return GatewayError(ErrorCode(refused.pop("code")), refused.pop("message"), **refused)


def _definition_example(dialect: str, raw: Mapping[str, Any]) -> DefinitionExample:
    return DefinitionExample(dialect, raw["listed"], _exactly(ToolDefinition, raw["definition"]))


def _exactly(type_: type[T], raw: dict[str, Any]) -> T:
    """Converts, and refuses a member the type does not have: a misspelled one would test nothing."""
    unknown = raw.keys() - {field.name for field in msgspec.structs.fields(type_)}
    assert not unknown, f"{type_.__name__} has no {unknown}"
    return msgspec.convert(raw, type_)
