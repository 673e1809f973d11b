"""The page of the configuration: values as a file has them, where they were written, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.console.configuration import MASK, ConfigurationPage
from gateway.metrics import LabelValues, Metrics
from gateway.settings import load as config
from tests.support.terminal import ROOT

SECRET = "a-very-long-secret-that-nobody-may-see"
TEXT = """\
server:
  port: 8080
  body_timeout: 90s
  max_body: 2MiB
auth:
  jwt:
    - issuer: https://issuer.example.com
      secret: ${env:JWT_SECRET}
backends:
  shop: {protocol: otc, url: "https://shop.example.com", auth: {bearer: "${env:JWT_SECRET}"}}
routes:
  - tools: "Shop.*"
    backend: shop
    secrets: {SHOP_KEY: "${env:JWT_SECRET}"}
rate_limits:
  - {name: slow, key: caller, rate: 30/m}
  - {name: monthly, key: caller, rate: 1000/month}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JWT_SECRET", SECRET)
    path = tmp_path / "gateway.yaml"
    path.write_text(TEXT)
    return path


def metrics() -> Metrics:
    return Metrics(LabelValues(dialects=frozenset(), protocols={}), max_tools=1, gauges=lambda: ())


def shown(file: Path) -> dict[str, Any]:
    return ConfigurationPage(file).as_json(config.load(file), metrics())


def by_path(page: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["path"]: each for each in page["settings"]}


def test_values_are_shown_as_a_file_would_have_them(file: Path) -> None:
    found = {path: each["value"] for path, each in by_path(shown(file)).items()}
    assert found["server.body_timeout"] == "90s"
    assert found["server.max_body"] == "2MiB"
    assert found["server.idle_timeout"] == "75s"
    assert found["rate_limits[0].rate"] == "30/m"
    assert found["rate_limits[1].rate"] == "1000/month"
    assert found["backends.shop.protocol"] == "otc"
    assert found["mcp.enabled"] is True


def test_each_value_has_the_line_where_it_was_written(file: Path) -> None:
    found = {path: each["origin"] for path, each in by_path(shown(file)).items()}
    assert found["server.port"] == "gateway.yaml:2"
    assert found["auth.jwt[0].secret"] == "gateway.yaml:8 (env JWT_SECRET)"
    assert found["backends.shop.url"] == "gateway.yaml:10"
    assert found["routes[0].tools"] == "gateway.yaml:12"
    assert found["server.host"] == "default"


def test_no_secret_is_shown_wherever_it_stands(file: Path) -> None:
    page = shown(file)
    assert SECRET not in json.dumps(page)
    secrets = {path for path, each in by_path(page).items() if each["is_secret"] and each["value"] == MASK}
    assert {"auth.jwt[0].secret", "backends.shop.auth.bearer", "routes[0].secrets.SHOP_KEY"} <= secrets


def test_every_example_can_be_shown_without_its_secrets() -> None:
    example = ROOT / "config/gateway.yaml"
    used = config.load(example, allow_missing_env=True)
    settings = by_path(ConfigurationPage(example).as_json(used, metrics()))
    keys = {"console.login.client_secret", "state.url", "metrics.token"}
    assert all(settings[key]["is_secret"] for key in keys)
    assert not any(each["is_secret"] for path, each in settings.items() if path.endswith(".caller_tokens"))
    assert settings["console.login.scope"]["origin"].startswith("gateway.yaml:")


def test_what_check_says_is_shown_with_its_place(file: Path) -> None:
    file.write_text(TEXT.replace("${env:JWT_SECRET}\nbackends", f"{SECRET}\nbackends"))
    page = shown(file)
    (plain,) = [each for each in page["remarks"] if "plain text" in each["text"]]
    assert plain["level"] == "warning"
    assert plain["origin"] == f"{file}:8"
    assert any("state.url is not set" in each["text"] for each in page["remarks"])


def test_a_file_that_cannot_be_used_any_more_is_said_with_its_problems(file: Path) -> None:
    used, counted = config.load(file), metrics()
    file.write_text(TEXT.replace("8080", "none"))
    counted.reload("failed", [f"{file}:2:9: server.port: must be a whole number"])
    page = ConfigurationPage(file).as_json(used, counted)
    first, second = page["remarks"][:2]
    assert first["level"] == "error"
    assert "last good one" in first["text"]
    assert second == {"level": "error", "text": "server.port: must be a whole number", "origin": f"{file}:2"}
    assert by_path(page)["server.port"]["value"] == 8080


@pytest.mark.parametrize("text", ["a: [", "\x00", ""])
def test_a_file_that_is_no_yaml_has_no_lines(file: Path, text: str) -> None:
    used = config.load(file)
    file.write_text(text)
    page = ConfigurationPage(file).as_json(used, metrics())
    assert {each["origin"] for each in page["settings"]} == {"default"}
    assert page["remarks"][0]["level"] == "error"


def test_without_a_file_there_are_values_and_no_origins(file: Path) -> None:
    page = ConfigurationPage(None).as_json(config.load(file), metrics())
    assert page["file"] is None
    assert {each["origin"] for each in page["settings"]} == {"default"}
