"""Which broken exchanges count against a tool server, and how long it must have had for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.assembly import factories
from gateway.configfile.web import FilePath
from gateway.net.client import Kind, Limits, Origin, Pool, TransportError
from gateway.settings import TlsSettings
from gateway.settings.load import read
from gateway.upstream.replica_url import Server, client_context, shown
from tests.support.authority import Authority

URL = "http://127.0.0.1:1/base/"
PATIENCE_S, CONNECT_S = 10.0, 2.0

BLAMED = [
    (Kind.CONNECT, False, 0.001, True),
    (Kind.CLOSED, True, 0.001, True),
    (Kind.PROTOCOL, True, 0.001, True),
    (Kind.BUSY, False, 60.0, False),
    (Kind.INVALID, False, 60.0, False),
    (Kind.TIMEOUT, True, 9.9, True),
    (Kind.TIMEOUT, True, 5.0, False),
    (Kind.TIMEOUT, False, 1.9, True),
    (Kind.TIMEOUT, False, 1.0, False),
]


def test_operators_see_no_query_and_tell_replicas_apart_all_the_same() -> None:
    urls = ["http://a/mcp?key=1", "http://a/mcp?key=2", "http://a/mcp", "http://b/mcp?key=1"]
    names = shown(urls)
    assert names == ["http://a/mcp?...", "http://a/mcp?... (2)", "http://a/mcp", "http://b/mcp?..."]


@pytest.mark.parametrize(("kind", "sent", "given_s", "blamed"), BLAMED)
def test_who_is_to_blame_depends_on_what_broke_and_on_the_time_there_was(
    kind: Kind, sent: bool, given_s: float, blamed: bool
) -> None:
    server = Server(URL, Pool(Origin.parse(URL), Limits(connect_timeout_s=CONNECT_S)), PATIENCE_S)
    assert server.is_to_blame(TransportError(kind, "", sent=sent), given_s) is blamed


def test_a_path_of_the_protocol_comes_after_that_of_the_server() -> None:
    server = Server(URL, Pool(Origin.parse(URL)), PATIENCE_S)
    assert server.target("/tools/call") == b"/base/tools/call"


PATIENCE = [
    ("otc", "", 30.0),
    ("otc", "timeout: 3s", 3.0),
    ("otc", "deny: true", 30.0),
    ("otc", "timeout: 50s", 50.0),
    ("callback", "", 10.0),
    ("callback", "timeout: 3s", 3.0),
]


@pytest.mark.parametrize(("protocol", "route", "patience_s"), PATIENCE)
def test_a_tool_server_has_the_shortest_time_its_routes_give(protocol: str, route: str, patience_s: float) -> None:
    config = read(
        "auth: none\n"
        f"backends: {{crm: {{protocol: {protocol}, url: '{URL}'}}, other: {{protocol: otc, url: '{URL}'}}}}\n"
        f"routes: [{{tools: '*', backend: crm, {route}}}, {{tools: 'A.*', backend: other, timeout: 1s}}]\n"
    )
    assert factories.patience_s(config)["crm"] == patience_s


def test_those_who_trust_the_same_files_share_a_context_until_one_changes(tmp_path: Path) -> None:
    files = TlsSettings(ca=FilePath(Authority(tmp_path).path))
    before = client_context(files)
    assert client_context(TlsSettings(ca=files.ca)) is before
    Authority(tmp_path)  # writes another one in its place
    assert client_context(files) is not before
