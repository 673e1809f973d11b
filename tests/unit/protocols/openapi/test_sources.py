"""Where documents come from: what is asked for again, what is refused, and what stays as it was."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.assembly import factories
from gateway.core.jsontext import encode
from gateway.protocols.openapi.backend import OpenApiBackend
from gateway.settings.load import read
from tests.streams import Request, http_reply
from tests.unit.protocols.openapi.document.documents import root
from tests.unit.protocols.openapi.facing import DOCUMENT, api, document_of, facing, names, text_of
from tests.unit.upstream.facing import refusal

pytestmark = pytest.mark.anyio

NAMES = ("a", "b", "c", "d")


async def cause(backend: OpenApiBackend) -> str:
    return (await refusal(backend.list_tools())).detail or ""


def tagged(*operations: str) -> Callable[[Request], bytes]:
    """A document with an ETag, which is not sent again."""
    etag = '"' + "-".join(operations) + '"'

    def answer(request: Request) -> bytes:
        if request.header("if-none-match") == etag:
            return http_reply(304, b"", etag=etag)
        return document_of(*operations, etag=etag)

    return answer


async def test_openapi_07_a_document_that_has_not_changed_is_the_very_same_list() -> None:
    async with api() as server, facing(server) as backend:
        server.document = tagged(*NAMES)
        first = await backend.list_tools()
        assert names(first) == list(NAMES)
        assert await backend.list_tools() is first
        assert [fetch.header("if-none-match") for fetch in server.fetches] == [None, '"a-b-c-d"']
        server.document = document_of(*NAMES, last_modified="Mon, 23 Nov 2026 00:00:00 GMT")
        assert await backend.list_tools() is first  # the same text, without any tag
        assert await backend.list_tools() is first
        asked = [fetch.header("if-modified-since") for fetch in server.fetches]
        assert asked == [None, None, None, "Mon, 23 Nov 2026 00:00:00 GMT"]
        server.document = tagged("a", "b", "c", "e")
        assert names(await backend.list_tools()) == ["a", "b", "c", "e"]


async def test_openapi_07_a_document_of_several_files_is_read_again_when_one_of_them_was_written(
    tmp_path: Path,
) -> None:
    parts, file = tmp_path / "parts", tmp_path / "shop.json"
    parts.mkdir()
    (parts / "gone.json").symlink_to(tmp_path / "nowhere.json")
    file.write_bytes(b'{"openapi": "3.1.0", "paths": {"/things": {"$ref": "parts/things.yaml"}}}')

    def write(summary: str, at: float) -> None:
        (parts / "things.yaml").write_text(f"get: {{operationId: a, summary: {summary}}}")
        for path in (file, parts / "things.yaml"):
            os.utime(path, (at, at))

    write("before", at=1000)
    async with api() as server:
        async with facing(server, document=str(file)) as backend:
            assert names(await backend.list_tools()) == []  # unless the operator allows it
        async with facing(server, document=str(file), references="files") as backend:
            first = await backend.list_tools()
            assert [tool.description for tool in first.tools] == ["before"]
            assert await backend.list_tools() is first
            write("after", at=2000)
            assert [tool.description for tool in (await backend.list_tools()).tools] == ["after"]


async def test_openapi_07_a_file_is_read_again_when_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "shop.json"

    def write(*operations: str, at: float | None = None) -> None:
        file.write_bytes(text_of(*operations))
        if at is not None:
            os.utime(file, (at, at))

    write("a", "b", at=1000)
    async with api() as server, facing(server, document=str(file)) as backend:
        first = await backend.list_tools()
        assert names(first) == ["a", "b"]
        write("a", "z", at=1000)  # by its time and its size it is the same
        assert await backend.list_tools() is first
        write("a", "c", at=2000)
        assert names(await backend.list_tools()) == ["a", "c"]
        write("a", "d")
        assert names(await backend.list_tools()) == ["a", "d"]
        write("a", "e")  # within the same tick, perhaps
        assert names(await backend.list_tools()) == ["a", "e"]
        file.unlink()
        assert await cause(backend) == "its document cannot be read: No such file or directory"
        assert server.fetches == []


async def test_openapi_07_files_that_a_document_refers_to_are_looked_at_too(tmp_path: Path) -> None:
    paths = {"/a": {"$ref": "parts/a.json"}, "/b": {"get": {"operationId": "b"}}}
    (tmp_path / "parts").mkdir()
    part = tmp_path / "parts" / "a.json"

    def write(operation: str) -> None:
        part.write_bytes(encode({"get": {"operationId": operation}}))

    (tmp_path / "shop.json").write_bytes(encode(root(paths)))
    write("one")
    for file in (part, tmp_path / "shop.json"):
        os.utime(file, (1000, 1000))
    keys = {"document": str(tmp_path / "shop.json"), "references": "files"}
    async with api() as server, facing(server, **keys) as backend:
        first = await backend.list_tools()
        assert names(first) == ["one", "b"]
        assert await backend.list_tools() is first
        write("two")
        assert names(await backend.list_tools()) == ["two", "b"]


def test_openapi_07_the_same_settings_ask_for_the_same_tools() -> None:
    backend = {
        "protocol": "openapi",
        "url": "https://api.example",
        "document": "https://api.example/openapi.json",
        "auth": {"schemes": {"Key": {"api_key": {"value": "k"}}}},
        "arguments": {"owner": {"name": "acme"}},
        "tools": {"a": {"arguments": {"/body/x": [1]}, "hide": ["z"]}},
        "server_variables": {"region": "eu"},
    }

    def terms(**more: Any) -> object:
        text = json.dumps({"auth": "none", "backends": {"b": backend | more}, "routes": []})
        backends = {"b": cast(Any, None)}
        (source,) = factories.sources(read(text), backends, backends)
        return source.terms

    assert terms() == terms(timeout="7s")
    for changed in (
        {"arguments": {"owner": {"name": "other"}}},
        {"auth": {"bearer": "t"}},
        {"pin": "sha256:" + "0" * 64},
    ):
        assert terms() != terms(**changed)


BROKEN = {
    "gone": (http_reply(404, b""), "its document cannot be fetched: status 404"),
    "cut": (b"", "its document cannot be fetched: closed: "),
    "compressed": (document_of("a", content_encoding="br"), "its document is compressed, which was not asked for"),
    "not changed, they say": (http_reply(304, b""), "its document cannot be fetched: status 304"),
    "elsewhere": (
        http_reply(302, b"", location="http://127.0.0.1:1/openapi.json"),
        "its document cannot be fetched: status 302",
    ),
    "no document": (http_reply(200, b"<html>", content_type="text/html"), ""),
}


@pytest.mark.parametrize(("reply", "reason"), BROKEN.values(), ids=BROKEN)
async def test_openapi_56_a_document_that_is_broken_keeps_the_old_tools(reply: bytes, reason: str) -> None:
    async with api() as server, facing(server) as backend:
        server.document = document_of(*NAMES)
        first = await backend.list_tools()
        server.document = reply
        assert (await cause(backend)).startswith(reason)
        server.document = document_of(*NAMES)
        assert await backend.list_tools() is first


async def test_openapi_56_a_document_without_most_of_the_tools_is_not_taken() -> None:
    async with api() as server, facing(server) as backend:
        server.document = document_of(*NAMES)
        await backend.list_tools()
        server.document = tagged("a", "x")
        for _ in range(2):  # it is fetched again, and refused again
            assert "lacks 3 of 4 tools" in await cause(backend)
        server.document = document_of("a", "b")
        assert names(await backend.list_tools()) == ["a", "b"]
    pin = "sha256:" + hashlib.sha256(text_of("x")).hexdigest()
    async with api() as server, facing(server, pin=pin) as backend:
        server.document = document_of("x")
        assert names(await backend.list_tools()) == ["x"]
        server.document = document_of("x", "y")
        assert (await cause(backend)).startswith("its document is not the one that is pinned, but sha256:")


async def test_openapi_46_a_document_moves_within_its_origin() -> None:
    def moved(request: Request) -> bytes:
        if request.target == DOCUMENT:
            return http_reply(301, b"", location=f"{DOCUMENT}/latest?v=2")
        return document_of(*NAMES)

    async with api() as server, facing(server) as backend:
        server.document = moved
        assert names(await backend.list_tools()) == list(NAMES)
        server.document = lambda request: http_reply(302, b"", location=request.target + "x")
        assert await cause(backend) == "its document cannot be fetched: status 302"
        assert len(server.fetches) == 2 + 4


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        ({"bearer": "t0k"}, ("authorization", "Bearer t0k")),
        ({"basic": {"user": "u", "password": "p"}}, ("authorization", "Basic dTpw")),
        ({"header": {"name": "X-Key", "value": "k3y"}}, ("x-key", "k3y")),
        (None, ("authorization", None)),
    ],
)
async def test_a_document_has_a_credential_of_its_own(auth: Any, header: tuple[str, str | None]) -> None:
    name, value = header
    async with api() as server, facing(server, document_auth=auth, auth={"bearer": "of-calls"}) as backend:
        server.document = document_of(*NAMES)
        await backend.list_tools()
        assert server.fetches[0].header(name) == value


async def test_a_backend_takes_over_the_document_of_the_one_before() -> None:
    async with api() as server, facing(server) as before, facing(server) as backend:
        server.document = tagged(*NAMES)
        listing = await before.list_tools()
        backend.take_over(before)
        assert backend.dialect == before.dialect
        assert await backend.list_tools() is listing
        server.document = document_of(*NAMES)
        assert await backend.list_tools() is listing


async def test_an_api_is_alive_that_answers_its_base_url() -> None:
    statuses = [200, 401, 404, 405, 500, 503]
    async with api() as server, facing(server, "/v1") as backend:
        for status in statuses:
            server.answer = partial(_with, status)
            assert await alive(backend) is (status < 500)
        server.answer = lambda request: http_reply(501 if request.method == "HEAD" else 404, b"")
        assert await alive(backend)
        sent = {(request.method, request.target, request.header("authorization")) for request in server.requests}
        assert sent == {("HEAD", "/v1", None), ("GET", "/v1", None)}


def _with(status: int, request: Request) -> bytes:
    return http_reply(status, b"")


async def alive(backend: OpenApiBackend) -> bool:
    admission = backend._exchange._admission
    assert admission.check is not None
    return await asyncio.wait_for(asyncio.ensure_future(admission.check(admission.replicas[0].target)), 5) is None
