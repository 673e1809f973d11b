"""Which refusal a call gets when several are due: the earliest, so that no step runs in vain or shows anything.

The order is ours; the specifications fix only the outcome of each step.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from tests.flow.caller import Answer, Caller, call_body, every_dialect
from tests.flow.gateways import config, running
from tests.flow.toolserver import object_of, tool, tool_server
from tests.support.tokens import SECRET, token

pytestmark = pytest.mark.anyio


@dataclass
class Attempt:
    """A call that would run, if its tool server were still there."""

    dialect: str
    method: str = "POST"
    path: str = "/tools/call"
    headers: dict[str, str] = field(default_factory=lambda: {"authorization": f"Bearer {token(scope='vault')}"})
    tool_id: Any = "Vault.Open"
    arguments: Any = field(default_factory=lambda: {"n": 1})
    context: Any = field(default_factory=lambda: {"user_id": "ada", "secrets": [{"id": "PIN", "value": "1"}]})
    schema: Any = None
    garbled: bool = False

    async def send(self, caller: Caller) -> Answer:
        request = {"tool_id": self.tool_id, "input": self.arguments, "context": self.context}
        content = json.dumps(call_body(self.dialect, request, self.schema)).encode()
        if self.garbled:
            content = content[:-1]
        path = f"/{self.dialect}{self.path}"
        return await caller.send(self.dialect, "call", self.method, path, headers=self.headers, content=content)


def wrong_path(it: Attempt) -> None:
    it.path = "/tools/call/again"


def wrong_method(it: Attempt) -> None:
    it.method = "PUT"


def announced_too_large(it: Attempt) -> None:
    it.headers["content-length"] = "2049"


def wrong_content_type(it: Attempt) -> None:
    it.headers["content-type"] = "text/plain"


def no_credential(it: Attempt) -> None:
    del it.headers["authorization"]


def malformed_body(it: Attempt) -> None:
    it.garbled = True


def unsupported_version(it: Attempt) -> None:
    it.headers["oxp-version"] = "7"


def wrong_member(it: Attempt) -> None:
    it.arguments = []


def unknown_tool(it: Attempt) -> None:
    it.tool_id = "No.Tool"


def missing_scope(it: Attempt) -> None:
    it.headers["authorization"] = f"Bearer {token()}"


def wrong_input(it: Attempt) -> None:
    it.arguments = {"n": "one"}


def missing_requirements(it: Attempt) -> None:
    it.context = {}


def nothing_wrong(it: Attempt) -> None:
    """The tool server is gone all the same."""


Fault = Callable[[Attempt], None]
# In the order in which they are reported.
FAULTS: dict[Fault, int] = {
    wrong_path: 404,
    wrong_method: 405,
    announced_too_large: 413,
    wrong_content_type: 415,
    no_credential: 401,
    malformed_body: 400,
    unsupported_version: 400,
    wrong_member: 400,
    unknown_tool: 400,
    missing_scope: 403,
    wrong_input: 422,
    missing_requirements: 400,
    nothing_wrong: 400,
}


@pytest.fixture(scope="module")
async def caller(anyio_backend: object) -> AsyncIterator[Caller]:
    """A caller of a gateway whose tool wants a scope, an integer, a user and a secret, and whose server is gone."""
    vault = tool(
        "Vault.Open",
        input_schema=object_of(n={"type": "integer"}),
        requirements={"user_id": True, "secrets": [{"id": "PIN"}]},
    )
    route = {"tools": "*", "backend": "scripted", "scopes": ["vault"]}
    auth = {"jwt": [{"secret": SECRET}]}
    async with AsyncExitStack() as stack:
        async with tool_server(vault) as server:
            text = config({"scripted": server.url}, [route], auth=auth, server={"max_body": "2KiB"})
            gateway = await stack.enter_async_context(running(text))
        yield gateway.caller


async def refusal(caller: Caller, dialect: str, *faults: Fault) -> Answer:
    """The answer to an attempt with all these faults; of two that touch the same thing, the first given stays."""
    attempt = Attempt(dialect)
    for fault in reversed(faults):
        fault(attempt)
    return await attempt.send(caller)


@pytest.mark.parametrize(("fault", "status"), FAULTS.items(), ids=[fault.__name__ for fault in FAULTS])
@every_dialect
async def test_every_fault_has_its_refusal(caller: Caller, dialect: str, fault: Fault, status: int) -> None:
    answer = await refusal(caller, dialect, fault)
    assert answer.status == status
    assert (answer.headers.get("retry-after") is not None) == (fault is nothing_wrong)
    assert (answer.missing is not None) == (fault is missing_requirements)


@every_dialect
async def test_the_earliest_of_several_faults_is_reported(caller: Caller, dialect: str) -> None:
    for earlier, later in pairwise(FAULTS):
        alone = await refusal(caller, dialect, earlier)
        assert (await refusal(caller, dialect, earlier, later)).body == alone.body, (earlier, later)
    assert (await refusal(caller, dialect, *FAULTS)).status == FAULTS[wrong_path]
