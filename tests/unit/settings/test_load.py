"""A configuration file becomes one frozen Config, or every problem in it at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr, ValidationError

from gateway.core.errors import ConfigError
from gateway.protocols.otc.settings import OxpBackendSettings
from gateway.settings import BearerAuthSettings, Config, JwtAuthSettings
from gateway.settings.load import load, read
from gateway.settings.telemetry import PACKAGE
from gateway.upstream.settings import SigningSettings
from tests.unit.settings.cases import Broken, broken_files
from tests.unit.settings.configured import BACKENDS, CANARY, ENV, problems, validator

CONFIG = Path(__file__).parents[3] / "config"

ONE_BACKEND = "backends: {crm: {protocol: otc, url: 'http://127.0.0.1:9101'}}"
CALLS_BACK = "backends: {builds: {protocol: callback, url: 'http://127.0.0.1:9103'}}"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder a file lies in, with other files it may name."""
    folder = tmp_path_factory.mktemp("config")
    (folder / "key").write_text(f"{CANARY}\n")
    (folder / "windows").write_bytes(f"{CANARY}\r\n".encode())
    (folder / "large").write_text("x" * 70_000)
    (folder / "latin1").write_bytes(b"\xe9" * 40)
    return folder


@pytest.mark.parametrize("case", broken_files(), ids=lambda case: case.name)
def test_a_broken_file_gets_all_of_its_problems_and_no_other(case: Broken, base: Path) -> None:
    assert problems(case.text, base) == [f"f.yaml:{problem}" for problem in case.problems]
    assert CANARY not in "\n".join(case.problems)


def test_telemetry_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, base: Path) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)  # as if it were not there
    text = "auth: none\ntelemetry: {otlp: 'http://127.0.0.1:4318'}\n"
    missing = "needs OpenTelemetry's SDK: pip install 'toolgate-gateway[otel]', or '.[otel]' in the folder of Toolgate"
    assert problems(text, base) == [f"f.yaml:2:1: telemetry: {missing}"]


Look = Callable[[Config], object]
GOOD: list[tuple[str, Look, object]] = [
    # text: what YAML 1.2 calls text, whatever YAML 1.1 makes of it
    ("server: {host: no}", lambda c: c.server.host, "no"),
    ("server: {host: '1'}", lambda c: c.server.host, "1"),
    ("server: {host: '::1'}", lambda c: c.server.host, "::1"),
    # numbers, sizes, durations, flags
    ("server: {port: 0}", lambda c: c.server.port, 0),
    ("server: {port: '${env:PORT}'}", lambda c: c.server.port, 8081),
    ("server: {max_body: 2048}", lambda c: c.server.max_body_bytes, 2048),
    ("server: {max_body: '2048'}", lambda c: c.server.max_body_bytes, 2048),
    ("server: {max_body: 64KiB}", lambda c: c.server.max_body_bytes, 65536),
    ("server: {head_timeout: 500ms}", lambda c: c.server.head_timeout_s, 0.5),
    ("server: {head_timeout: 5m}", lambda c: c.server.head_timeout_s, 300.0),
    ("server: {body_timeout: 1h}", lambda c: c.server.body_timeout_s, 3600.0),
    ("server: {idle_timeout: '${env:WAIT}'}", lambda c: c.server.idle_timeout_s, 5.0),
    ("server: {shutdown_grace: 0s}", lambda c: c.server.shutdown_grace_s, 0.0),
    ("server: {openapi: false}", lambda c: c.server.openapi, False),
    ("errors: {strict: '${env:YES}'}", lambda c: c.errors.strict, True),
    # substitution
    ("server: {host: 'a.${env:HOST}'}", lambda c: c.server.host, "a.gateway.internal"),
    ("state: {keys: ['${file:key}']}", lambda c: c.state and c.state.keys[0].get_secret_value(), CANARY),
    ("state: {keys: ['${file:windows}']}", lambda c: c.state and c.state.keys[0].get_secret_value(), CANARY),
    (f"state: {{keys: ['{'$$' * 32}']}}", lambda c: c.state and c.state.keys[0].get_secret_value(), "$" * 32),
    (f"state: {{keys: ['{'$x' * 32}']}}", lambda c: c.state and c.state.keys[0].get_secret_value(), "$x" * 32),
    (
        "state: {keys: ['$${env:SECRET} ${env:NESTED} ${env:PORT}']}",
        lambda c: c.state and c.state.keys[0].get_secret_value(),
        "${env:SECRET} ${env:SECRET} 8081",  # what is put in is not looked at again
    ),
    # the state
    (
        "state: {result_ttl: 2h, pending_ttl: 2d, seen_ttl: 3d}",
        lambda c: c.state and (c.state.result_ttl_s, c.state.pending_ttl_s, c.state.seen_ttl_s),
        (7200.0, 172_800.0, 259_200.0),
    ),
    (
        "state: {max_result: 2KiB, max_bytes: 1MiB, max_pending_per_caller: 5, max_records_per_caller: 6}",
        lambda c: (
            c.state
            and (
                c.state.max_result_bytes,
                c.state.max_bytes,
                c.state.max_pending_per_caller,
                c.state.max_records_per_caller,
            )
        ),
        (2048, 1048576, 5, 6),
    ),
    (
        "state: {url: 'rediss+sentinel://:${env:PORT}@one,two/calls', sentinel_password: x, keys: ['${env:SECRET}']}",
        lambda c: repr(c.state and c.state.address),
        "rediss+sentinel://one:26379,two:26379/calls/0",
    ),
    ("state: {url: 'redis://elsewhere', insecure: true}", lambda c: c.state and c.state.insecure, True),
    ("state: {url: 'redis://[::1]'}", lambda c: c.limits_on_failure, "local"),
    ("state: {url: 'redis://[::1]'}\nlimits_on_failure: refuse", lambda c: c.limits_on_failure, "refuse"),
    ("limits_on_failure: local", lambda c: c.limits_on_failure, "local"),
    # backends, of the class their protocol names; routes
    (
        "backends: {a: {protocol: oxp, url: http://x/, dialect: oxp-env, auth: {bearer: '${env:SECRET}'}}}",
        lambda c: (type(c.backends["a"]), c.backends["a"].addresses, c.backends["a"].auth),
        (OxpBackendSettings, ("http://x",), BearerAuthSettings(bearer=SecretStr(CANARY))),
    ),
    (
        "backends: {a: {protocol: otc, url: http://x, auth: {jwt: {secret: '${env:SECRET}', ttl: 5s}}}}",
        lambda c: c.backends["a"].auth,
        JwtAuthSettings(jwt=SigningSettings(secret=SecretStr(CANARY), ttl_s=5.0)),
    ),
    (
        "backends: {a: {protocol: otc, urls: [http://a/, 'http://b/x'], forward_headers: [X-Tenant]}}",
        lambda c: (c.backends["a"].addresses, c.backends["a"].forward_headers),
        (("http://a", "http://b/x"), ("x-tenant",)),
    ),
    (
        "backends: {a: {protocol: oxp, url: http://x, max_queue: 0, breaker: {failures: 0, open_for: 500ms}}}",
        lambda c: (c.backends["a"].max_queue, c.backends["a"].breaker.failures, c.backends["a"].breaker.open_for_s),
        (0, 0, 0.5),
    ),
    (
        f"{ONE_BACKEND}\nroutes: [{{tools: M.S@1.*, backend: crm, timeout: 100ms, secrets: {{K: '${{env:SECRET}}'}}}}]",
        lambda c: (c.routes[0].timeout_s, c.routes[0].secrets["K"].get_secret_value()),
        (0.1, CANARY),
    ),
    (
        f"{ONE_BACKEND}\nroutes: [{{tools: '*', backend: crm, authorization_urls: {{g: 'https://a.example/?p=1'}}}}]",
        lambda c: dict(c.routes[0].authorization_urls),
        {"g": "https://a.example/?p=1"},
    ),
    (
        "backends: {a: {protocol: otc, url: http://x}, b: {protocol: otc, url: http://x}}\nroutes: "
        "[{tools: A.*, backend: a}, {tools: A.*, backend: b}, {tools: '*', backend: a}, {tools: '*', backend: b}]",
        lambda c: len(c.routes),  # each of them is reached
        4,
    ),
    # callback backends have an address to call back
    (f"server: {{host: 0.0.0.0, callback_url: 'http://x'}}\n{CALLS_BACK}", lambda c: len(c.backends), 1),
    (f"server: {{host: 0.0.0.0, public_url: 'http://x'}}\n{CALLS_BACK}", lambda c: len(c.backends), 1),
    (f"server: {{host: localhost}}\n{CALLS_BACK}", lambda c: len(c.backends), 1),
    # URLs
    ("server: {public_url: 'https://x.example/'}", lambda c: c.server.public_url, "https://x.example"),
    ("server: {public_url: 'http://[::1]:80/a/b/'}", lambda c: c.server.public_url, "http://[::1]:80/a/b"),
    # networks however their addresses are spelled
    (
        "server: {trusted_proxies: ['2001:0db8::/32', '0:0:0:0:0:0:0:1', 'FD00:0::/8', 10.0.0.0/8]}",
        lambda c: [str(network) for network in c.server.trusted_proxies],
        ["2001:db8::/32", "::1/128", "fd00::/8", "10.0.0.0/8"],
    ),
    (
        "server: {trusted_proxies: ['::ffff:10.0.0.0/104', '::ffff:192.0.2.1', '::fffe:0:0/95']}",
        lambda c: [str(network) for network in c.server.trusted_proxies],
        ["10.0.0.0/8", "192.0.2.1/32", "::fffe:0:0/95"],
    ),
    # what may be left out
    ("", lambda c: (c.state, c.server.public_url, dict(c.backends), c.routes), (None, None, {}, ())),
    ("state: null", lambda c: c.state, None),
    ("backends: {}\nroutes: []", lambda c: (dict(c.backends), c.routes), ({}, ())),
    ("logging: {level: debug, format: text}", lambda c: (c.logging.level, c.logging.format), ("debug", "text")),
    # one port for two listeners where that is no conflict
    ("server: {port: 0, admin: {port: 0}}", lambda c: c.server.admin.port, 0),
    ("server: {host: 10.0.0.1, port: 80, admin: {port: 80}}", lambda c: c.server.admin.port, 80),
    # an alias stands for a whole value
    (
        "server: {head_timeout: &t 7s, body_timeout: *t}",
        lambda c: (c.server.head_timeout_s, c.server.body_timeout_s),
        (7.0, 7.0),
    ),
]


@pytest.mark.parametrize(("text", "look", "expected"), GOOD, ids=[text or "nothing" for text, _, _ in GOOD])
def test_a_good_value_is_read_as_documented(text: str, look: Look, expected: object, base: Path) -> None:
    text = f"auth: none\n{text}\n"
    assert look(read(text, base=base, env=ENV)) == expected
    validator().validate(yaml.safe_load(text.replace(": no}", ": 'no'}")))


def test_nothing_in_a_config_can_be_changed() -> None:
    config = read(BACKENDS)
    with pytest.raises(ValidationError):
        config.server.port = 1
    with pytest.raises(TypeError):
        config.backends["x"] = config.backends["crm"]  # type: ignore[index]


def test_secrets_are_shown_by_reveal_only(base: Path) -> None:
    config = load(CONFIG / "gateway.yaml", env=SecretEverywhere(), allow_missing_env=True)
    assert config.auth is not None
    assert config.auth.jwt is not None
    secret = config.auth.jwt[-1].secret
    assert secret is not None
    assert secret.get_secret_value() == CANARY
    assert CANARY not in f"{config} {config!r} {secret} {secret!r}"


class SecretEverywhere(dict[str, str]):
    """An environment in which every variable is the same secret."""

    def get(self, name: str, default: Any = None) -> str:
        return CANARY


def test_missing_variables_and_files_may_be_allowed_whatever_the_key_expects(base: Path) -> None:
    text = (
        "auth:\n  jwt:\n"
        "    - {secret: '${env:A}', issuer: '${env:B}', leeway: '${env:C}'}\n"
        "    - {secret: '${file:none}', issuer: '${file:gone}'}\n"
        "server: {port: '${env:A}', host: '${env:A}', public_url: '${env:A}'}\n"
        "errors: {strict: '${env:A}'}\n"
        "backends:\n"
        "  a: {protocol: '${env:A}', url: '${env:A}', auth: {api_key: '${env:A}'}, forward_headers: ['${env:A}']}\n"
        "routes:\n"
        "  - {tools: '${env:A}', backend: '${env:A}', authorization_urls: {x: '${env:A}'}}\n"
    )
    assert read(text, base=base, env={}, allow_missing_env=True).server.port == 0
    assert len(problems(text, base)) == 13  # one each, but a backend without protocol is not read further


def test_what_is_there_but_wrong_is_refused_even_when_absence_is_allowed(base: Path) -> None:
    text = "auth: none\nserver: {port: '${env:SECRET}', host: '${env:}'}\nstate: {keys: ['${file:latin1}']}\n"
    with pytest.raises(ConfigError) as caught:
        read(text, source="f", base=base, env=ENV, allow_missing_env=True)
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "server.port",
        "server.host",
        "state.keys[0]",
    ]


def test_a_variable_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"server\.host: is not valid Unicode text"):
        read("auth: none\nserver: {host: '${env:RAW}'}\n", env={"RAW": os.fsdecode(b"\xff")})


def test_a_value_cannot_be_blown_up_by_naming_a_variable_often() -> None:
    text = f"auth: none\nserver: {{host: '{'${env:LONG}' * 200}'}}\n"
    with pytest.raises(ConfigError, match="is longer than 1048576 characters after substitution"):
        read(text, env={"LONG": "x" * 100_000})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="file 'pipe' does not exist or is no regular file"):
        read("auth: none\nserver: {host: '${file:pipe}'}\n", base=tmp_path, env={})


def test_a_file_is_found_beside_the_one_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "host").write_text("10.0.0.1\n")
    path = tmp_path / "gateway.yaml"
    path.write_text("auth: none\nserver: {host: '${file:host}'}\n")
    assert load(path, env={}).server.host == "10.0.0.1"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"auth: none\n# caf\xe9\n", ":2:6: is not UTF-8 text"),
        (b"\xef\xbb\xbfauth: none \xff\n", ":1:12: is not UTF-8 text"),
        ("auth: none\n".encode("utf-16"), ":1:1: is not UTF-8 text"),
        (b"auth: none\n\x00", ":2:1: holds a control character, which YAML does not allow"),
        (b" " * (4 * 1024 * 1024 + 1), ":1:1: is larger than 4194304 bytes"),
    ],
    ids=["latin-1", "after a byte order mark", "utf-16", "nul", "too large"],
)
def test_bytes_that_are_no_configuration_are_refused(data: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.problems == (f"{path}{problem}",)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_bytes(b"\xef\xbb\xbfauth: none\n")
    assert load(path).auth is None


def test_a_file_that_cannot_be_opened_is_a_problem_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load(tmp_path / "none.yaml")


def test_there_are_only_so_many_replicas() -> None:
    urls = [f"http://{number}.example" for number in range(40)]
    (problem,) = problems(f"{BACKENDS}  farm: {{protocol: oxp, urls: {urls}}}\n")
    assert problem.endswith("backends.farm.urls[32]: is one too many; there may be 32")


def test_reading_stops_after_a_hundred_problems() -> None:
    found = problems("auth: none\n" + "".join(f"unknown{n}: 1\n" for n in range(200)))
    assert len(found) == 101
    assert found[-1] == "f.yaml: stopped after 100 problems"
