"""What a URL speaks is found by asking it; what is told where that is nothing, or nothing yet."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
import trustme

from gateway.cli.drafting import look
from gateway.cli.drafting.asking import ask
from gateway.cli.drafting.draft import Draft, Wanted, checked, name_at, name_of
from gateway.cli.output import CommandError
from tests.streams import Request, accepting, http_reply
from tests.unit.cli.drafting.answering import FOLDER, Page, answering, behind, json_page, rpc

pytestmark = pytest.mark.anyio

TOOL = {"id": "Crm.Find", "name": "Find", "description": "", "version": "1.0.0", "input_schema": {}}
OTHER = TOOL | {"id": "Mail.Send@2.0.0", "name": "Send"}
RFC = TOOL | {"toolkit": {"name": "Crm", "version": "1.0.0"}, "input": {"parameters": []}}
LC = {"name": "find", "description": "", "input_schema": {"type": "object"}}
TOOLS = {"tools": [{"name": "find", "description": "", "inputSchema": {"type": "object"}}]}
ABOUT = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "acme-search-server"}}
META = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "x", "title": "Acme: search"}}}
MODERN = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete", "ttlMs": 0} | META
TOOLSET = {"name": "Builds", "tools": [{"name": "build", "description": "b", "inputSchema": {"type": "object"}}]}
CRUMB = {"id": "1", "title": "find", "tags": ["tool:find", "workspace:tools"], "schema_name": "tool.code.v1"}
CODE = {"input_schema": {"type": "object"}, "description": "Finds.", "language": "typescript", "code": {"source": ""}}
RECORD = CRUMB | {"context": CODE | {"name": "find", "enabled": True}}
API = {
    "openapi": "3.1.0",
    "info": {"title": "Pet Shop", "version": "1"},
    "paths": {"/pets": {"get": {"operationId": "pets"}}},
}


def toolset(request: Request) -> bytes:
    """A page of RAP; its endpoint is at its own origin."""
    return http_reply(200, TOOLSET | {"endpoint": f"http://{request.header('host')}/run"})


SPOKEN: list[tuple[dict[str, Page], str, str, str, list[str], str]] = [
    ({"/tools": json_page({"tools": [TOOL, OTHER]})}, "", "otc", "OTC 1.0", ["Crm.*", "Mail.*"], "tools"),
    ({"/tools": json_page({"tools": [RFC]})}, "/tools", "otc", "the OTC RFC", ["Crm.*"], "crm"),
    ({"/a/tools": json_page([LC])}, "/a", "otc", "the LangChain form of OTC", ["tools.*"], "tools"),
    ({"/tools": json_page({"items": [TOOL]}, oxp_version="1.0")}, "", "oxp", "OXP 1.0, flat", ["Crm.*"], "crm"),
    ({"/tools": json_page({"items": [TOOL]})}, "/", "oxp", "OXP 1.0", ["Crm.*"], "crm"),
    (
        {"/tools": json_page({"$schema": "urn:oxp:1.0", "items": [TOOL]})},
        "/",
        "oxp",
        "OXP 1.0, enveloped",
        ["Crm.*"],
        "crm",
    ),
    (
        {"/.well-known/rap-toolset": toolset, "/tools": toolset},
        "/.well-known/rap-toolset",
        "callback",
        "callbacks (RAP)",
        ["Builds.*"],
        "builds",
    ),
    (
        {"/mcp": rpc(server_discover=MODERN, tools_list=TOOLS)},
        "",
        "mcp",
        "MCP 2026-07-28",
        ["acme.*"],
        "acme",
    ),
    (
        {"/x/mcp/": rpc(initialize=ABOUT, tools_list=TOOLS)},
        "/x/mcp",
        "mcp",
        "MCP 2025-03-26",
        ["acme_search.*"],
        "acme_search",
    ),
    (
        {"/breadcrumbs": json_page([CRUMB]), "/breadcrumbs/1/full": json_page(RECORD)},
        "",
        "rcrt",
        "breadcrumbs (RCRT)",
        ["tools.*"],
        "tools",
    ),
    ({"/openapi.json": json_page(API)}, "/openapi.json", "openapi", "OpenAPI 3.1", ["pet_shop.*"], "pet_shop"),
    ({"/v3/api-docs": json_page(API)}, "/shop", "openapi", "OpenAPI 3.1", ["pet_shop.*"], "pet_shop"),
]


@pytest.mark.parametrize(
    ("pages", "path", "protocol", "form", "routes", "name"),
    SPOKEN,
    ids=[f"{it[3]} {it[1]}" for it in SPOKEN],
)
async def test_what_a_url_speaks_is_found_by_asking(
    pages: dict[str, Page], path: str, protocol: str, form: str, routes: list[str], name: str
) -> None:
    async with answering(pages) as site:
        draft = await ask(site.wanted(path))
    assert (draft.protocol, draft.form, list(draft.routes), draft.name) == (protocol, form, routes, name)
    config = checked(f"auth: none\nbackends:\n{draft.yaml}", FOLDER)
    assert config.backends[name].protocol == protocol


async def test_tools_come_before_an_empty_list_and_other_protocols_are_told() -> None:
    pages: dict[str, Page] = {
        "/tools": json_page({"tools": []}),
        "/mcp": rpc(initialize=ABOUT, tools_list=TOOLS),
        "/.well-known/rap-toolset": toolset,
    }
    async with answering(pages) as site:
        draft = await ask(site.wanted())
        insisted = await ask(site.wanted(), "otc")
    assert draft.protocol == "callback"
    assert draft.said[-1] == "  It also speaks MCP 2025-03-26: --protocol chooses."
    assert (insisted.protocol, list(insisted.routes)) == ("otc", ["*"])


async def test_a_name_that_is_given_is_that_of_tools_that_name_no_toolkit() -> None:
    async with answering({"/tools": json_page([LC])}) as site:
        draft = await ask(site.wanted(name="my-crm"))
    assert (draft.name, draft.tools) == ("my-crm", ("my_crm.find",))


async def test_a_server_that_wants_a_credential_gets_the_token_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: dict[str, Page] = {"/mcp": behind("t0ken", rpc(initialize=ABOUT, tools_list=TOOLS))}
    pages["/openapi.json"] = json_page(API)  # which anybody may read
    async with answering(pages) as site:
        with pytest.raises(CommandError, match=r"needs a credential: .* 401(.|\n)*--token-env TOOL_TOKEN"):
            await ask(site.wanted())
        assert (await ask(site.wanted(), "openapi")).form == "OpenAPI 3.1"
        with pytest.raises(CommandError, match="ACME_TOKEN, which --token-env names, is not set"):
            await ask(site.wanted(token_env="ACME_TOKEN"))
        monkeypatch.setenv("ACME_TOKEN", "other")
        with pytest.raises(CommandError, match="does not accept the token: "):
            await ask(site.wanted(token_env="ACME_TOKEN"), "mcp")
        monkeypatch.setenv("ACME_TOKEN", "t0ken")
        draft = await ask(site.wanted(token_env="ACME_TOKEN"))
    assert '    auth: {bearer: "${env:ACME_TOKEN}"}\n' in draft.yaml
    assert "t0ken" not in str(draft)


async def test_a_document_behind_a_token_is_fetched_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PETS", "t0ken")
    async with answering({"/openapi.json": behind("t0ken", json_page(API))}) as site:
        draft = await ask(site.wanted(token_env="PETS"))
    assert '    document_auth: {bearer: "${env:PETS}"}\n' in draft.yaml


async def test_a_stream_of_the_old_transport_of_mcp_is_told() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    async with answering({"/sse": head + b"event: endpoint\r\ndata: /messages\r\n\r\n"}) as site:
        with pytest.raises(CommandError, match=r"over HTTP\+SSE(.|\n)*streamable HTTP, often at /mcp"):
            await ask(site.wanted("/sse"))


async def test_a_server_that_speaks_nothing_is_told_with_every_answer() -> None:
    async with answering({"/tools": json_page({"hammers": 3})}) as site:
        with pytest.raises(CommandError) as refused:
            await ask(site.wanted())
    said = str(refused.value)
    assert said.startswith(f"{site.url} answers in none of the protocols that Toolgate tried:\n")
    for protocol in ("otc", "oxp", "callback", "mcp", "rcrt", "openapi"):
        assert f"\n  {protocol} " in said
    assert f"no document at {site.url} nor at 13 usual places" in said


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(1024):
        pass


async def test_a_server_that_says_nothing_is_not_asked_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "LOOK_S", 0.01)
    async with accepting(silent) as port:
        with pytest.raises(CommandError, match="takes connections, but has not answered within"):
            await ask(Wanted(place=f"http://127.0.0.1:{port}", folder=FOLDER))


async def test_a_certificate_of_a_private_authority_can_be_trusted() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with accepting(silent, ssl=context) as port:
        with pytest.raises(CommandError, match=r"certificate(.|\n)*Export SSL_CERT_FILE"):
            await ask(Wanted(place=f"https://127.0.0.1:{port}", folder=FOLDER))


async def test_a_query_is_for_documents() -> None:
    async with answering({"/openapi.json": json_page(API)}) as site:
        with pytest.raises(CommandError, match=f"{site.url}/x is no document, so no query can follow it"):
            await ask(site.wanted("/x?key=secret"))
        draft = await ask(site.wanted("/openapi.json?version=1"))
    assert f'document: "{site.url}/openapi.json?version=1"' in draft.yaml


UNASKED = [
    ("http://127.0.0.1:1", "http://127.0.0.1:1 cannot be reached: connection refused."),
    ("localhost:9101", "To ask a tool server, write http://localhost:9101 or https://localhost:9101."),
    ("ftp://docs.example/x", "must be the path of a file, or a URL with http:// or https://."),
    ("http://me:secret@127.0.0.1:1", "a URL here must not hold a user name or password"),
    ("/absent.json", "/absent.json cannot be read: No such file or directory."),
]


@pytest.mark.parametrize(("place", "said"), UNASKED)
async def test_what_cannot_be_asked_is_told(place: str, said: str) -> None:
    with pytest.raises(CommandError) as refused:
        await ask(Wanted(place=place, folder=FOLDER))
    assert said in str(refused.value)


NAMES = [
    ("Swagger Petstore - OpenAPI 3.0", "petstore"),
    ("The Pet & Shop API v2 (Extended)", "pet_shop"),
    ("github-mcp-server", "github"),
    ("e-commerce API", "e_commerce"),
    ("MCP Server", ""),
]


def test_names_come_from_titles_and_hosts() -> None:
    assert [name_of(title) for title, _ in NAMES] == [name for _, name in NAMES]
    hosts = ("https://api.acme.example", "http://search", "http://[::1]:1", "http://10.0.0.1", "http://localhost:1")
    assert [name_at(url) for url in hosts] == ["acme", "search", "tools", "tools", "tools"]


def test_very_many_toolkits_share_a_route() -> None:
    tools = tuple(f"Kit{number}.Tool" for number in range(21))
    draft: Any = Draft("otc", "", "x", "", tools)
    assert list(draft.routes) == ["*"]
