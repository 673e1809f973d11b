"""The policy that the handbook shows, evaluated by regorus behind the data API of Open Policy Agent.

docs/security.md, A policy of your own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.gateways import config, running
from tests.flow.toolserver import tool, tool_server
from tests.interop.programs import HERE, interpreter
from tests.support import terminal
from tests.support.markdown import DOCS, blocks
from tests.support.tokens import SECRET, api_key, token

pytestmark = pytest.mark.anyio

KEY = "a key that nobody will ever guess"
NIGHT = {"oxp-api-key": KEY}
# Who calls, which tool, for which user; None: the call runs, else the reason why it does not.
CASES: list[tuple[str, str, str | None, str | None]] = [
    ("ada", "Calculator.Add", None, None),
    ("ada", "Mail.Search", "ada", None),
    ("ada", "Mail.Search", "eve", "not_your_mailbox"),
    ("ada", "Mail.Search", None, "no_rule"),
    ("ada", "Mail.Send", "ada", "no_rule"),
    ("nightly-job", "Mail.Send", None, None),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a service with the policy of the page."""
    [block] = blocks((DOCS / "security.md").read_text("utf-8"), "rego")
    policy: Path = tmp_path_factory.mktemp("rego") / block.mark
    policy.write_text(block.text, "utf-8")
    with terminal.running([interpreter("gordon-to-regorus"), str(HERE / "rego_app.py"), str(policy)]) as program:
        yield f"http://127.0.0.1:{json.loads(program.wait_for('port'))['port']}"


def asking(calculator: str, mail: str, url: str) -> str:
    keys = [api_key("nightly-job", KEY)]
    auth = {"jwt": [{"secret": SECRET}], "api_keys": keys}
    return config({"calculator": calculator, "mail": mail}, auth=auth, authorize={"url": url})


async def test_the_policy_of_the_handbook_decides_as_it_says(service: str) -> None:
    calculator = tool_server(tool("Calculator.Add"))
    mail = tool_server(tool("Mail.Search"), tool("Mail.Send"))
    async with calculator as one, mail as other:
        async with running(asking(one.url, other.url, f"{service}/v1/data/toolgate")) as gateway:
            for who, name, user, reason in CASES:
                headers: Any = NIGHT if who == "nightly-job" else {"authorization": f"Bearer {token(who)}"}
                context = {} if user is None else {"user_id": user}
                answer = await gateway.caller.call("oxp", name, headers=headers, context=context)
                said = answer.document.get("reason"), answer.status
                assert said == (reason, 200 if reason is None else 403), (who, name, user)
        async with running(asking(one.url, other.url, f"{service}/v1/data/nothing")) as gateway:  # no such policy
            answer = await gateway.caller.call("oxp", "Calculator.Add", headers=NIGHT)
            assert (answer.status, answer.document["reason"]) == (403, "undecided")
