"""The gateway as a client of the conformance suite: `python -m tests.interop.mcp.conformance_client URL`.

The suite starts this for each scenario, with the URL of a server of its own. A gateway with that server behind it is
asked for its tools by an OXP caller, who then calls them: as the scenario says, else each with arguments made from its
schema.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import urlsplit

from tests import plainhttp
from tests.support import processes

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
OWN_CREDENTIALS = "auth/client-credentials-basic"
TOOLKIT = "Suite"
SAMPLES: dict[str, Any] = {"string": "x", "integer": 5, "number": 3, "boolean": True, "array": [], "object": {}}


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a schema takes, if it is a simple one."""
    properties = schema.get("properties", {})
    return {name: SAMPLES[properties[name]["type"]] for name in schema.get("required", ())}


def calls(tools: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What is called of these tools, by id, and with which arguments."""
    if named := CONTEXT.get("toolCalls"):
        # The gateway refuses a null that the schema does not allow; left out, it has no header either.
        return [(f"{TOOLKIT}.{call['name']}", without_nulls(call["arguments"])) for call in named]
    return [(tool_id, sample(schema)) for tool_id, schema in tools.items()]


def without_nulls(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def credentials(server: str) -> dict[str, Any]:
    """What an operator would write for a server whose clients have credentials of their own (RFC 9728, RFC 8414)."""
    address = urlsplit(server)
    with plainhttp.client() as http:
        resource = http.get(f"{address.scheme}://{address.netloc}/.well-known/oauth-protected-resource{address.path}")
        issuer = resource.json()["authorization_servers"][0]
        metadata = http.get(f"{issuer.rstrip('/')}/.well-known/oauth-authorization-server").json()
    os.environ["SUITE_SECRET"] = CONTEXT["client_secret"]
    client = {"client_id": CONTEXT["client_id"], "client_secret": "${env:SUITE_SECRET}"}
    return {"auth": {"oauth": {"token_url": metadata["token_endpoint"], "resource": server, **client}}}


async def run(server: str) -> None:
    backend: dict[str, Any] = {"protocol": "mcp", "url": server, "toolkit": TOOLKIT}
    if SCENARIO == OWN_CREDENTIALS:
        backend |= credentials(server)
    config = processes.settings({"suite": backend})
    config["routes"][0]["timeout"] = "10s"  # the suite waits for 30
    async with processes.gateway(config) as gateway, plainhttp.async_client() as http:
        listed = (await http.get(f"{gateway.url}/oxp/tools")).json()["items"]
        for tool_id, arguments in calls({tool["id"]: tool["input_schema"] for tool in listed}):
            reply = await http.post(f"{gateway.url}/oxp/tools/call", json={"tool_id": tool_id, "input": arguments})
            print(tool_id, reply.status_code, reply.text)


if __name__ == "__main__":
    if SCENARIO.startswith("auth/") and SCENARIO != OWN_CREDENTIALS:
        sys.exit("The gateway asks no user to log in at a tool server: it has credentials of its own.")
    asyncio.run(run(sys.argv[-1]))
