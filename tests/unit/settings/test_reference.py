"""The JSON Schema says what the reader does, and the files that are shipped please both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from gateway.core.errors import ConfigError
from gateway.settings.load import load, main, read
from tests.deploy.values_schema import FILE, values_schema
from tests.unit.settings.configured import schema, validator

CONFIG = Path(__file__).parents[3] / "config"


def test_the_schema_that_is_shipped_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    ours = "regenerate it: python -m gateway.settings.load > config/gateway.schema.json"
    assert (CONFIG / "gateway.schema.json").read_text() == capsys.readouterr().out, ours


def test_the_chart_checks_its_values_by_that_schema_too() -> None:
    assert FILE.read_text("utf-8") == values_schema(), "regenerate it: python -m tests.deploy.values_schema"


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.name)
def test_every_file_that_is_shipped_loads_and_fits_the_schema(path: Path) -> None:
    load(path, env={}, allow_missing_env=True)
    validator().validate(yaml.safe_load(path.read_text()))


def test_the_annotated_file_shows_every_key() -> None:
    text = (CONFIG / "gateway.yaml").read_text()
    declared = {name for section in schema()["$defs"].values() for name in section["properties"]}
    assert [name for name in sorted(declared) if f"{name}:" not in text] == []


def test_every_key_has_a_sentence_and_every_default_fits_its_own_schema() -> None:
    keys = {
        f"{section}.{name}": value
        for section, declared in schema()["$defs"].items()
        for name, value in declared["properties"].items()
    }
    assert [name for name, value in keys.items() if not value["description"].endswith(".")] == []
    assert all(section["additionalProperties"] is False for section in schema()["$defs"].values())
    defaults = {name: value["default"] for name, value in keys.items() if "default" in value}
    jsonschema_rs.validator_for({"properties": keys, "$defs": schema()["$defs"]}).validate(defaults)


def test_defaults_written_out_change_nothing() -> None:
    written = {name: _spelled_out(value) for name, value in schema()["properties"].items()}
    assert read(json.dumps({**written, "auth": "none"})) == read("auth: none")


def _spelled_out(value: dict[str, Any]) -> object:
    if "$ref" not in value or value.get("default") != {}:
        return value.get("default")
    section = schema()["$defs"][value["$ref"].rpartition("/")[2]]
    return {name: _spelled_out(inner) for name, inner in section["properties"].items()}


@pytest.mark.parametrize(
    "text",
    [
        "auth: none\nserver: {prot: 1}",
        "auth: off",
        "{}",
        "auth: none\nserver: {head_timeout: 30}",
        "auth: none\nbackends: {a: {protocol: oxp, url: 'http://x', dialect: rfc}}",
        "auth: none\nbackends: {a: {protocol: otc, url: 'http://x', unknown: 1}}",
        "auth: none\nbackends: {a: {protocol: otc, url: 'http://x', auth: {bearer: a, api_key: b}}}",
        "auth: none\nbackends: {'-': {protocol: otc, url: 'http://x'}}",
        "auth: {jwt: []}",
    ],
)
def test_what_an_editor_can_know_the_schema_refuses_as_the_reader_does(text: str) -> None:
    with pytest.raises(ConfigError):
        read(text)
    assert not validator().is_valid(yaml.safe_load(text))
