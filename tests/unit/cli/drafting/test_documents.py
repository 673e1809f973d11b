"""What becomes of an OpenAPI document: the choice of operations, where they are called, and with which credentials."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.drafting.asking import ask
from gateway.cli.drafting.draft import Draft, ForeignServerError, Wanted, checked
from gateway.cli.output import CommandError
from tests.streams import accepting
from tests.unit.cli.drafting.answering import answering, json_page

pytestmark = pytest.mark.anyio

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


async def drafted(tmp_path: Path, text: Mapping[str, Any], **more: Any) -> Draft:
    """What is made of a document that lies beside the configuration."""
    (tmp_path / "pets.json").write_text(json.dumps(text))
    return await ask(Wanted(place=str(tmp_path / "pets.json"), folder=tmp_path, **more))


def settings(draft: Draft, folder: Path) -> Any:
    return checked(f"auth: none\nbackends:\n{draft.yaml}", folder).backends[draft.name]


async def test_what_is_chosen_and_what_the_api_expects_stand_in_the_file(tmp_path: Path) -> None:
    security: list[Any] = [{"tls": []}, {"odd one": []}, {"key": [], "login": []}, {"corp": []}]
    draft = await drafted(tmp_path, document(security=security), tags=["a"], methods=["all"], name="pets")
    assert list(draft.variables) == ["PETS_KEY", "PETS_LOGIN_USER", "PETS_LOGIN_PASSWORD"]
    pets = settings(draft, tmp_path)
    assert (pets.url, pets.document) == ("https://pets.example/v2", str(tmp_path / "pets.json"))
    assert (pets.operations.methods, [match.tag for match in pets.operations.include]) == (("ALL",), ["a"])
    assert set(pets.auth.schemes) == {"key", "login"}
    assert draft.said[0].startswith("  pets: 2 tools of The Swagger Pet & Shop API v2 (Extended Edition)")


async def test_one_credential_stands_alone_and_servers_may_have_variables(tmp_path: Path) -> None:
    variables = {"region": {"default": "eu"}}
    servers = [{"url": "https://{region}.pets.example:8443", "variables": variables}]
    draft = await drafted(tmp_path, document(servers, [{"corp": []}]))
    pets = settings(draft, tmp_path)
    assert (draft.name, list(draft.variables)) == ("pet_shop", ["PET_SHOP_CORP"])
    assert pets.url == "https://eu.pets.example:8443"
    assert set(pets.auth.model_fields_set) == {"bearer"}


class Elsewhere:
    """A server that nobody has named, and the connections it gets."""

    def __init__(self) -> None:
        self.connections = 0

    async def __call__(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()


SERVERS = ["http://127.0.0.1:{port}/v1", "//127.0.0.1:{port}/v1", "http://{{where}}:{port}"]


@pytest.mark.parametrize("has_token", [True, False])
@pytest.mark.parametrize("server", SERVERS)
async def test_no_request_goes_to_an_origin_that_only_the_document_names(
    server: str, has_token: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PETS_TOKEN", "t0k")
    token = {"token_env": "PETS_TOKEN"} if has_token else {}
    elsewhere = Elsewhere()
    async with accepting(elsewhere) as port:
        variables = {"where": {"default": "127.0.0.1"}}
        named = {"url": server.format(port=port), "variables": variables}
        async with answering({"/openapi.json": json_page(document([named]))}) as site:
            for path in ("", "/openapi.json"):
                with pytest.raises(ForeignServerError) as refused:
                    await ask(site.wanted(path, **token))
                url = f"http://127.0.0.1:{port}"
                assert (refused.value.url.removesuffix("/v1"), refused.value.code) == (url, 2)
                assert f"--url {refused.value.url}, or --url {site.url} to call its own." in str(refused.value)
            draft = await ask(site.wanted("", calls_url=url, **token))
            assert settings(draft, tmp_path).url == url
        in_file = document([named | {"url": url}])
        with pytest.raises(ForeignServerError) if has_token else contextlib.nullcontext():
            await drafted(tmp_path, in_file, **token)
    assert elsewhere.connections == 0


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (document(servers=[]), {}, "The document does not say where its API is; say so with --url."),
    (document(servers=[{"url": "/v2"}]), {}, "does not say where its API is (/v2); say so with --url."),
    (document(servers=[{"url": "https://{host}/"}]), {}, "does not say where its API is (https://{host}/)"),
    (document(servers=[{"url": "http://u:p@pets.example"}]), {}, "does not say where its API is (http://u:p@pets"),
    (document(servers=[{"url": "http://pets.example:0/"}]), {}, "does not say where its API is (http://pets.example:0"),
    (document(paths={"/a": {"$ref": "http://x.example/#/a"}}), {}, "  /a: It refers to "),
    (document(), {"calls_url": "pets.example"}, "backends.pet_shop.url: must be an http or https URL"),
    (document(), {"name": "a b"}, 'backends."a b": as a name must be'),
    (document(), {"methods": ["TRACE"]}, "must not be TRACE or CONNECT"),
    (document(), {"max_tools": 2}, "3 operations are chosen, and operations.max allows 2."),
    (document(), {"max_tools": 2}, "Its tags: a 2 of 2, b 1 of 1"),
    (document(), {"max_tools": 2}, "Choose with --tag, --operation or --method, or allow more with --max."),
    (document(), {"methods": ["PUT"]}, "With --method all, operations that change something become tools, too."),
    (document(paths={}), {"methods": ["all"]}, "The document has no operation."),
    (document(openapi="4.0.0"), {}, "pets.json cannot be used: "),
]


@pytest.mark.parametrize(("text", "more", "said"), REFUSED)
async def test_what_makes_no_backend_is_refused(
    tmp_path: Path, text: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(CommandError) as refused:
        await drafted(tmp_path, text, **more)
    assert said in str(refused.value)
