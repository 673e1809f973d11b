"""`toolgate init`: from the URL of a document to a call, with nothing between but the commands it prints."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.config import load
from tests.flow import gateways
from tests.support.terminal import entered, tool_server


def test_openapi_57_a_documents_url_becomes_a_gateway_that_can_be_called(tmp_path: Path) -> None:
    with tool_server("openapi_server") as api:
        file = tmp_path / "gateway.yaml"
        done = entered("init", f"{api}/openapi.json", "-o", str(file))
        assert (done.returncode, done.stderr) == (0, "")
        assert "weather_archive: 5 tools of Weather archive" in done.stdout
        (key,) = re.findall("TOOLGATE_TOKEN=([0-9a-f]{64}) ", done.stdout)
        assert key not in file.read_text()

        checked = entered("check", "--live", "--json", str(file))
        assert (checked.returncode, checked.stderr) == (0, "")
        found = json.loads(checked.stdout)
        facts = dict(found["backends"]["weather_archive"]["report"]["facts"])
        assert (found["remarks"], facts["operations"]) == (
            [],
            "6, of them 5 published, 1 left out, 0 that cannot be tools",
        )
        assert len(found["tools"]) == 5
        chosen = entered("check", "--operations", str(file))
        assert '  - {operation: "readStation"} # GET /stations/{station}' in chosen.stdout
        shown = entered("check", "--live", str(file)).stdout
        assert "left out 1: operations.methods leaves out POST. addObservation" in shown

        called = asyncio.run(read_station(file.read_text(), key))
        assert called["country"] == "NO"


async def read_station(text: str, key: str) -> Any:
    """The value of a call to a gateway with that configuration."""
    async with gateways.running(text) as running:
        caller = running.caller.with_token(key)
        return (await caller.call("oxp", "weather_archive.readStation", {"station": "bergen"})).value


SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "login": {"type": "http", "scheme": "Basic"},
    "corp": {"type": "oauth2", "flows": {}},
    "odd one": {"type": "apiKey", "in": "query", "name": "k"},
    "tls": {"type": "mutualTLS"},
}


def document(servers: list[Any] | None = None, security: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    paths = {f"/{name}": {"get": {"operationId": name, "tags": [name[0]]}} for name in ("aa", "ab", "b")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "The Swagger Pet & Shop API v2 (Extended Edition)", "version": "1"},
        "servers": [{"url": "https://pets.example/v2/"}] if servers is None else servers,
        "paths": paths | {"/c": {"post": {"operationId": "c"}}},
        "components": {"securitySchemes": SCHEMES},
        **({} if security is None else {"security": security}),
        **more,
    }


def inited(tmp_path: Path, text: Mapping[str, Any], *words: str) -> tuple[int, str, str]:
    """Runs the command on a document that lies beside the configuration."""
    (tmp_path / "pets.json").write_text(json.dumps(text))
    output = tmp_path / "out.yaml"
    done = entered("init", str(tmp_path / "pets.json"), "-o", str(output), *words)
    return done.returncode, done.stdout, done.stderr


def test_what_is_chosen_and_what_the_api_expects_stand_in_the_file(tmp_path: Path) -> None:
    security: list[Any] = [{"tls": []}, {"odd one": []}, {"key": [], "login": []}, {"corp": []}]
    code, said, _ = inited(tmp_path, document(security=security), "--tag", "a", "--method", "all", "--name", "pets")
    assert code == 0
    names = re.findall("export (PETS_[A-Z_]+)=", said)
    assert names == ["PETS_KEY", "PETS_LOGIN_USER", "PETS_LOGIN_PASSWORD"]
    config = load(tmp_path / "out.yaml", env=dict.fromkeys(names, "a-secret"))
    pets: Any = config.backends["pets"]
    assert (pets.url, pets.document) == ("https://pets.example/v2", str(tmp_path / "pets.json"))
    assert (pets.operations.methods, [match.tag for match in pets.operations.include]) == (("ALL",), ["a"])
    assert set(pets.auth.schemes) == {"key", "login"}
    assert "  pets: 2 tools of The Swagger Pet & Shop API v2 (Extended Edition)" in said


def test_one_credential_stands_alone_and_names_come_from_titles(tmp_path: Path) -> None:
    variables = {"region": {"default": "eu"}}
    servers = [{"url": "https://{region}.pets.example:8443", "variables": variables}]
    code, _, _ = inited(tmp_path, document(servers, [{"corp": []}]))
    assert code == 0
    config = load(tmp_path / "out.yaml", env={"PET_SHOP_CORP": "a-secret"})
    pets: Any = config.backends["pet_shop"]
    assert (pets.url, pets.auth.bearer.get_secret_value()) == ("https://eu.pets.example:8443", "a-secret")


REFUSED: list[tuple[dict[str, Any], list[str], str]] = [
    (document(servers=[]), [], "The document does not say where its API is; say so with --url."),
    (document(servers=[{"url": "/v2"}]), [], "does not say where its API is (/v2); say so with --url."),
    (document(servers=[{"url": "https://{host}/"}]), [], "does not say where its API is (https://{host}/)"),
    (document(), ["--url", "pets.example"], "backends.pet_shop.url: must be an http or https URL"),
    (document(), ["--name", "a b"], 'backends."a b": as a name must be'),
    (document(), ["--method", "TRACE"], "must not be TRACE or CONNECT"),
    (document(), ["--max", "2"], "3 operations are chosen, and operations.max allows 2."),
    (document(), ["--max", "2"], "Its tags: a 2 of 2, b 1 of 1"),
    (document(), ["--max", "2"], "Choose with --tag, --operation or --method, or allow more with --max."),
    (document(), ["--method", "PUT"], "With --method all, operations that change something become tools, too."),
    (document(paths={}), ["--method", "all"], "None of its operations becomes a tool:\n"),
    (document(openapi="4.0.0"), [], "pets.json cannot be used: "),
    (document(), ["--protocol", "mcp"], "invalid choice: 'mcp'"),
]


@pytest.mark.parametrize(("text", "words", "said"), REFUSED)
def test_what_makes_no_configuration_is_refused_and_nothing_is_written(
    tmp_path: Path, text: dict[str, Any], words: list[str], said: str
) -> None:
    code, out, err = inited(tmp_path, text, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert os.listdir(tmp_path) == ["pets.json"]


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out.yaml").write_text("mine")
    code, _, err = inited(tmp_path, document())
    assert (code, (tmp_path / "out.yaml").read_text()) == (2, "mine")
    assert "is there already and stays as it is; name another with --output." in err


@pytest.mark.parametrize(
    ("place", "code", "said"),
    [
        ("absent.json", 1, "absent.json cannot be read: No such file or directory."),
        ("http://127.0.0.1:1/openapi.json", 1, "http://127.0.0.1:1/openapi.json cannot be fetched: connect: "),
        ("http://docs.example/openapi.json", 2, "needs 'allow_http: true'"),
        ("ftp://docs.example/openapi.json", 2, "must be the path of a file, or an https URL"),
    ],
)
def test_a_document_that_cannot_be_read_is_told(tmp_path: Path, place: str, code: int, said: str) -> None:
    done = entered("init", place, "-o", str(tmp_path / "out.yaml"))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
