"""`toolgate check`: the file, and with `--live` the tool servers behind it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.protocols.mcp.server_double import Script, serving
from tests.support.openid import openid_provider
from tests.support.redis_server import RedisServer
from tests.support.terminal import Done, entered, tool_server

CONFIG = """
auth: {api_keys: [{id: one, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}]}
backends: {office: {protocol: otc, url: "http://127.0.0.1:1"}, gone: {protocol: oxp, url: "http://127.0.0.1:2"}}
routes: [{tools: "Calculator.*", backend: office, scopes: [calc]}, {tools: "*", backend: gone}]
"""


@pytest.fixture(scope="module")
def office() -> Iterator[str]:
    with tool_server() as url:
        yield url


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "it.yaml"
    path.write_text(text)
    return str(path)


def test_a_good_file_gets_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, CONFIG)
    done = entered("check", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}: good (2 backends, 2 routes)\n", "")
    assert entered("check", "--strict", path).returncode == 0


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "auth: no\nbackends: {a: {protocol: smtp, url: x}}\n")
    done = entered("check", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) >= 2
    assert all(line.startswith(f"{path}:") for line in done.stderr.splitlines())
    for_a_program = entered("check", "-c", path, "--json")
    found = json.loads(for_a_program.stdout)
    assert (for_a_program.returncode, found["file"], found["problems"]) == (2, path, done.stderr.splitlines())


def test_absent_variables_may_be_overlooked(tmp_path: Path) -> None:
    path = write(tmp_path, "auth: {jwt: [{secret: '${env:NOBODY_SETS_THIS}'}]}\n")
    done = entered("check", path)
    assert done.returncode == 2
    assert "environment variable NOBODY_SETS_THIS is not set" in done.stderr
    assert done.stderr.splitlines()[-1] == "If these are missing on purpose, use --allow-missing-env."
    assert entered("check", path, "--allow-missing-env").returncode == 0


def test_what_is_rarely_meant_is_a_warning(tmp_path: Path) -> None:
    text = """
server: {host: 0.0.0.0}
auth: none
backends: {a: {protocol: otc, url: "http://127.0.0.1:1"}, b: {protocol: otc, url: "http://127.0.0.1:2"}}
routes: [{tools: "*", backend: b, scopes: [admin]}]
"""
    done = entered("check", write(tmp_path, text))
    assert done.returncode == 0
    warnings = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in warnings] == ["warning"] * 4
    assert entered("check", "--strict", str(tmp_path / "it.yaml")).returncode == 2
    assert "backends.a: no route publishes any of its tools" in warnings[2]
    assert "route 1 (* of b): with auth: none nobody has its scopes" in warnings[3]


def test_what_a_route_says_in_vain_is_a_warning(tmp_path: Path) -> None:
    id_ = "00000000-0000-0000-0000-000000000001"
    (tmp_path / "b").write_text("a secret")
    text = f"""
auth: none
backends:
  near: {{protocol: otc, url: "http://127.0.0.1:1"}}
  late: {{protocol: callback, url: "http://127.0.0.1:1"}}
  crumbs: {{protocol: rcrt, url: "http://127.0.0.1:1", owner_id: "{id_}", agent_id: "{id_}"}}
routes:
  - {{tools: "*", backend: near, on_timeout: cancel, decode: never, failure_patterns: [no], config_ids: ["{id_}"]}}
  - {{tools: "A.*", backend: late, on_timeout: cancel, decode: never, failure_patterns: [no], config_ids: ["{id_}"]}}
  - {{tools: "*", backend: late, secrets: {{a: "${{file:b}}"}}, context: [a], authorization_urls: {{a: "https://a.example"}}}}
  - {{tools: "A.*", backend: crumbs, config_ids: ["{id_}"], on_timeout: cancel}}
  - {{tools: "*", backend: crumbs, secrets: {{a: "${{file:b}}"}}, decode: always}}
"""
    done = entered("check", write(tmp_path, text))
    assert done.returncode == 0
    assert [line.removeprefix("warning: route ") for line in done.stderr.splitlines()] == [
        "1 (* of near): on_timeout has no effect on tools of otc, only on those of callback and rcrt",
        "1 (* of near): decode has no effect on tools of otc, only on those of callback",
        "1 (* of near): failure_patterns has no effect on tools of otc, only on those of callback",
        "1 (* of near): config_ids has no effect on tools of otc, only on those of rcrt",
        "2 (A.* of late): config_ids has no effect on tools of callback, only on those of rcrt",
        "3 (* of late): secrets has no effect on tools of callback, only on those of mcp, openapi, otc and oxp",
        "3 (* of late): context has no effect on tools of callback, only on those of mcp, openapi, otc and oxp",
        "3 (* of late): authorization_urls has no effect on tools of callback, only on those of mcp, openapi, otc and "
        "oxp",
        "5 (* of crumbs): secrets has no effect on tools of rcrt, only on those of mcp, openapi, otc and oxp",
        "5 (* of crumbs): decode has no effect on tools of rcrt, only on those of callback",
    ]


def test_what_lets_strangers_listen_or_in_is_a_warning(tmp_path: Path) -> None:
    hash_ = "sha256:" + "0" * 64
    text = f"""
server: {{host: 0.0.0.0, public_url: "https://tools.example", cors: {{origins: ["*"]}}}}
auth: {{api_keys: [{{id: one, hash: "{hash_}"}}]}}
authorize: {{url: "http://opa.example:8181/v1/data/toolgate", on_failure: allow}}
state: {{url: "redis://redis.example", insecure: true}}
backends: {{far: {{protocol: oxp, url: "http://tools.example:81", auth: {{bearer: a-token-of-some-length}}}}}}
routes: [{{tools: "*", backend: far, validate_output: "off"}}]
"""
    path = write(tmp_path, text)
    done = entered("check", path)
    assert (done.returncode, done.stderr.splitlines()) == (
        0,
        [
            "warning: neither server.tls nor trusted_proxies is set: tokens are sent unencrypted, unless a proxy "
            "handles TLS",
            "warning: server.cors.origins lets the pages of every site call; list the origins that you mean",
            "warning: authorize.url: whoever is between the gateway and opa.example:8181 can allow any call; use https",
            "warning: authorize.on_failure is allow: while the service gives no decisions, every call runs",
            "warning: state.keys is not set: only this process can read what it stores in Redis, and only until it "
            "restarts; a call that is repeated after that runs again",
            "warning: state.insecure lets calls be sent to Redis, or stored there, unencrypted",
            "warning: backends.far.auth: the credential is sent unencrypted to tools.example:81; use https",
            "warning: route 1 (* of far): validate_output is off: results are not checked",
            f"warning: {path}:6:80: backends.far.auth.bearer: holds a secret in plain text; write ${{env:NAME}} or "
            "${file:/path} in its place",
        ],
    )


def test_an_issuer_whose_tokens_are_not_for_callers_of_mcp_is_a_warning(tmp_path: Path) -> None:
    text = """
server: {{public_url: "https://tools.example/at"}}
auth:
  jwt:
    - {{issuer: "https://a.example", discovery: true, algorithms: [RS256], audience: [toolgate]}}
    - {{issuer: "https://b.example", discovery: true, algorithms: [RS256], audience: ["https://tools.example/at/mcp"]}}
    - {{issuer: "https://c.example", secret: "${{file:secret}}"}}
mcp: {{enabled: {enabled}}}
"""
    (tmp_path / "secret").write_text("s" * 32)
    said = "the audience of https://a.example lacks https://tools.example/at/mcp, which MCP clients ask for in their"
    for enabled, expected in (("true", f"warning: auth.jwt: {said} tokens\n"), ("false", "")):
        done = entered("check", write(tmp_path, text.format(enabled=enabled)))
        assert (done.returncode, done.stderr) == (0, expected)


STATE = "auth: none\nstate: {url: 'redis://:${file:password}@127.0.0.1:%d/0', keys: ['${file:key}']}\n"
PASSWORD = "hunter2-but-longer"  # the server has none, and then takes any


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "key").write_text("a key of the tests with 32 characters")
    server = RedisServer(tmp_path)
    yield server
    server.kill()


def test_live_looks_at_redis_and_leaves_nothing_there(tmp_path: Path, redis_server: RedisServer) -> None:
    with redis_server.connect() as redis:
        redis.config_set("save", "3600 1")
        file = write(tmp_path, STATE % redis_server.port)
        done = entered("check", file, "--live")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"state: redis://127.0.0.1:{redis_server.port}/0 (" in done.stdout
        assert done.stdout.endswith("\nno problems\n")
        assert PASSWORD not in done.stdout
        assert redis.keys() == []


MAY_ALL = "ACL SETUSER default on nopass ~* &* +@all"
TRIED = {
    "may lose calls": (
        ["CONFIG SET maxmemory-policy allkeys-lru"],
        0,
        "warning: state: maxmemory-policy is allkeys-lru: .*\nwarning: state: nothing is written to disk .*\n",
    ),
    # Providers forbid CONFIG; what cannot be known is no warning.
    "CONFIG is forbidden": ([f"{MAY_ALL} -config"], 0, ""),
    "INFO is forbidden": ([f"{MAY_ALL} -info"], 0, "warning: state: it does not say whether it may lose calls: .*\n"),
    "no channels": (
        ["CONFIG SET appendonly yes", MAY_ALL.replace("&*", "resetchannels")],
        0,
        "warning: state: replicas cannot notify each other, .*\n",
    ),
    "no scripts": ([f"{MAY_ALL} -@scripting"], 1, "state is down: .*eval"),
    "scripts may not write": ([f"{MAY_ALL} -set"], 1, "state is down: .*script"),
    "scripts may not ask for the time": ([f"{MAY_ALL} -time"], 1, "state is down: .*script"),
    "memory is full": (["CONFIG SET maxmemory 1"], 1, "used memory > 'maxmemory'"),
    "a replica": (["REPLICAOF 127.0.0.1 1"], 1, "state is down: it is a replica, which accepts no writes;"),
}


@pytest.mark.parametrize(("commands", "code", "said"), TRIED.values(), ids=TRIED)
def test_live_tries_what_the_gateway_needs_of_redis(
    tmp_path: Path, redis_server: RedisServer, commands: list[str], code: int, said: str
) -> None:
    """What is down is said on standard output, warnings on standard error."""
    with redis_server.connect() as redis:
        for command in commands:
            redis.execute_command(*command.split())
    done = entered("check", write(tmp_path, STATE % redis_server.port), "--live")
    assert done.returncode == code
    assert re.search(said, done.stdout) if code else re.fullmatch(said, done.stderr)


def test_live_fails_when_redis_is_down(tmp_path: Path, redis_server: RedisServer) -> None:
    redis_server.kill()
    done = entered("check", write(tmp_path, STATE % redis_server.port), "--live", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["state"]["up"], found["warnings"]) == (1, False, [])
    assert str(redis_server.port) in found["state"]["kept_in"]
    assert found["state"]["cause"].startswith("nothing listens there;")
    assert PASSWORD not in done.stdout + done.stderr


def test_live_asks_the_authorization_service(tmp_path: Path, office: str) -> None:
    """The tool server answers any other path with 404, which is no decision."""
    text = f'auth: none\nauthorize: {{url: "{office}/v1/data/toolgate"}}\n'
    done = entered("check", write(tmp_path, text), "--live")
    assert done.returncode == 1
    assert f"authorization: {office} (DOWN)\n" in done.stdout
    assert "  authorize: the service gives no decision: status 404\n" in done.stdout


def test_live_is_good_when_all_is_up(tmp_path: Path, office: str) -> None:
    text = f'auth: none\nbackends: {{a: {{protocol: otc, url: "{office}"}}}}\nroutes: [{{tools: "*", backend: a}}]\n'
    done = entered("check", write(tmp_path, text), "--live", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert found["backends"]["a"].pop("latency_ms") > 0
    assert found["remarks"] == []
    assert found["routes"] == [{"number": 1, "tools": "*", "backend": "a", "deny": False, "takes": 6, "fits": 6}]
    assert found["backends"]["a"] == {
        "protocol": "otc",
        "dialect": "otc",
        "up": True,
        "cause": None,
        "silent": {},
        "tools": 6,
        "rejected": [],
        "unrouted": [],
        "report": None,
    }
    assert {tool["id"] for tool in found["tools"]} >= {"Calculator.Add@1.0.0", "Text.Echo@1.0.0"}


ISSUER = """
auth: {{jwt: [{{issuer: "{issuer}", discovery: true, algorithms: [RS256], audience: [toolgate]}}]}}
backends: {{a: {{protocol: otc, url: "{office}"}}}}
routes: [{{tools: "*", backend: a}}]
"""


def test_live_fails_when_an_issuer_is_down_and_says_which(tmp_path: Path, office: str) -> None:
    """The tool server is none, and answers with 404; nothing else is wrong."""
    file = write(tmp_path, ISSUER.format(issuer=office, office=office))
    done = entered("check", file, "--live")
    assert done.returncode == 1
    assert f"issuer: {office} (DOWN)\n" in done.stdout
    assert f"1 problem:\n  auth: the keys of {office} cannot be fetched: status 404\n" in done.stdout
    found = json.loads(entered("check", file, "--live", "--json").stdout)
    assert [remark["kind"] for remark in found["remarks"]] == ["issuer_down"]


def test_live_names_an_issuer_that_is_another_beside_the_one_that_was_meant(tmp_path: Path, office: str) -> None:
    async def checked() -> tuple[str, Done]:
        async with openid_provider() as provider:
            provider.metadata = {"issuer": "https://login.example/realm"}
            file = write(tmp_path, ISSUER.format(issuer=provider.url, office=office))
            return provider.url, await asyncio.to_thread(entered, "check", file, "--live")

    issuer, done = asyncio.run(checked())
    assert done.returncode == 1
    said = f"its discovery document is that of https://login.example/realm, not of {issuer}\n"
    assert f"the keys of {issuer} cannot be fetched: {said}" in done.stdout


def test_live_fails_when_there_is_a_problem_though_all_is_up(tmp_path: Path, office: str) -> None:
    text = (
        f'auth: none\nbackends: {{a: {{protocol: otc, url: "{office}"}}}}\nroutes: [{{tools: "Txt.*", backend: a}}]\n'
    )
    file = write(tmp_path, text)
    done = entered("check", file, "--live")
    assert (done.returncode, "(Txt.*) publishes nothing: it matches no tool" in done.stdout) == (1, True)
    assert entered("check", file).returncode == 0
    assert entered("check", file, "--operations").returncode == 0


LISTS: dict[str, tuple[Script, str | None]] = {
    "error": (
        lambda talk: talk.fail(-32603, "Database is away"),
        "answers tools/list with error -32603: Database is away",
    ),
    "null": (lambda talk: talk.answer(None), "its answer holds no list of tools"),
    "cursor": (lambda talk: talk.answer({"tools": [], "nextCursor": {}}), "its answer holds no list of tools"),
    "fault": (lambda talk: talk.fail(-32603, "No.", 500), "answered 500"),
    "good": (lambda talk: talk.answer({"tools": [{"name": "find", "inputSchema": {"type": "object"}}]}), None),
}


def test_live_asks_each_tool_server_once_and_says_why_one_does_not_list(tmp_path: Path) -> None:
    async def checked() -> tuple[Done, list[int]]:
        async with AsyncExitStack() as stack:
            doubles = {
                name: await stack.enter_async_context(serving("modern", others={"tools/list": script}))
                for name, (script, _) in LISTS.items()
            }
            backends = {name: {"protocol": "mcp", "url": double.url} for name, double in doubles.items()}
            routes = [{"tools": f"{name}.*", "backend": name} for name in backends]
            file = write(tmp_path, json.dumps({"auth": "none", "backends": backends, "routes": routes}))
            done = await asyncio.to_thread(entered, "check", file, "--live", "--json")
            return done, [len(double.of("tools/list")) for double in doubles.values()]

    done, asked = asyncio.run(checked())
    assert (done.returncode, done.stderr) == (1, "")
    backends = json.loads(done.stdout)["backends"]
    for name, (_, cause) in LISTS.items():
        assert (cause or "None") in str(backends[name]["cause"])
        assert backends[name]["up"] is (cause is None)
    assert asked == [1] * len(LISTS)
