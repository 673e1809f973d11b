"""One running demonstration for all pages of the handbook."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.contract.state.server import RedisServer
from tests.live.cli.conftest import LAST_LINE, read_screen
from tests.live.cli.terminal import DEADLINE_S, TOOLGATE, running
from tests.live.docs.terminal import USUAL, USUAL_ADMIN

USUAL_PORTS = {"office": "9101", "postbox": "9102", "builds": "9103", "crumbs": "9104"}  # as demo.yaml says


@dataclass(frozen=True)
class Site:
    """What runs: `ports` is where things are that a page has at their usual ports, `env` what a reader exports."""

    ports: dict[str, str]
    env: dict[str, str]
    admin_url: str


@pytest.fixture(scope="package")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield str(server.port)
    server.stop()


@pytest.fixture(scope="package")
def site(redis_port: str) -> Iterator[Site]:
    with running([*TOOLGATE, "demo", "--port", "0"]) as command:
        command.wait_for(LAST_LINE)
        screen = read_screen(command.out.decode())
        (admin_url,) = re.findall(r"(http://[\d.:]+)/health", screen.screen)
        with urllib.request.urlopen(f"{admin_url}/health", timeout=DEADLINE_S) as reply:
            backends = json.load(reply)["backends"]
        ports = {USUAL_PORTS[name]: port_of(backend["replicas"][0]["url"]) for name, backend in backends.items()}
        ports |= {"6379": redis_port, USUAL: port_of(screen.url), USUAL_ADMIN: port_of(admin_url)}
        yield Site(ports, screen.env, admin_url)
        command.interrupt()
        assert command.ended() == 0


def port_of(url: str) -> str:
    return url.rsplit(":", 1)[1]
