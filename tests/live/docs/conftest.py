"""One running demonstration for all pages of the handbook."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.live.docs.terminal import USUAL, USUAL_ADMIN
from tests.support.demonstration import running_demo
from tests.support.redis_server import RedisServer
from tests.support.terminal import DEADLINE_S

USUAL_PORTS = {
    "office": "9101",
    "postbox": "9102",
    "builds": "9103",
    "crumbs": "9104",
    "studio": "9105",
    "weather": "9106",
}  # as demo.yaml says


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
    with running_demo() as demo:
        (admin_url,) = re.findall(r"(http://[\d.:]+)/health", demo.screen)
        with urllib.request.urlopen(f"{admin_url}/health", timeout=DEADLINE_S) as reply:
            backends = json.load(reply)["backends"]
        ports = {USUAL_PORTS[name]: port_of(backend["replicas"][0]["url"]) for name, backend in backends.items()}
        ports |= {"6379": redis_port, USUAL: port_of(demo.url), USUAL_ADMIN: port_of(admin_url)}
        yield Site(ports, demo.env, admin_url)


def port_of(url: str) -> str:
    return str(urlsplit(url).port)
