"""Runs a client of others against one base URL and prints what it understood.

Started by the interpreter of `.venvs/CLIENT`: `drive.py CLIENT BASE_URL`, CLIENT being `oxp` or `universal-tool-client`
(both PyPI), with the credential in TOOL_TOKEN. Standard input is a JSON list of `[operation, arguments]`, standard
output the list of outcomes, `{"answered": ...}` or `{"refused": {"kind", "status", "body"}}`. Everything else stays as
the client ships: its timeouts, its retries.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Perform = Callable[[str, dict[str, Any]], Any]


def oxp_client(url: str, token: str) -> Perform:
    """The answers are what the client's own types hold of them."""
    from oxp import Oxp

    client = Oxp(base_url=url, bearer_token=token)

    def perform(operation: str, arguments: dict[str, Any]) -> Any:
        match operation:
            case "health":
                return client.health.check()
            case "list":
                return client.tools.list().to_dict(mode="json")
            case "call":
                return client.tools.call(**arguments).to_dict(mode="json")
            case _:
                raise ValueError(operation)

    return perform


def universal_tool_client(url: str, token: str) -> Perform:
    """`langchain` loads every tool and invokes one, as an agent framework does."""
    from universal_tool_client import get_sync_client

    client = get_sync_client(url=url, headers={"Authorization": f"Bearer {token}"})

    def perform(operation: str, arguments: dict[str, Any]) -> Any:
        match operation:
            case "health":
                return client.health()
            case "list":
                return client.tools.list()
            case "call":
                return client.tools.call(**arguments)
            case "langchain":
                tools = {tool.name: tool for tool in client.tools.as_langchain_tools()}
                return tools[arguments["name"]].invoke(arguments["args"])
            case _:
                raise ValueError(operation)

    return perform


CLIENTS = {"oxp": oxp_client, "universal-tool-client": universal_tool_client}


def outcome(perform: Perform, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answered": perform(operation, arguments)}
    except NotImplementedError as error:  # what LangChain tools raise when a tool says success: false
        return {"refused": {"kind": type(error).__name__, "status": None, "body": None}}
    except Exception as error:
        reply = getattr(error, "response", None)  # of httpx, which both clients use
        if reply is None:
            raise
        body = getattr(error, "body", reply.text)
        return {"refused": {"kind": type(error).__name__, "status": reply.status_code, "body": body}}


if __name__ == "__main__":
    perform = CLIENTS[sys.argv[1]](sys.argv[2], os.environ["TOOL_TOKEN"])
    json.dump([outcome(perform, operation, arguments) for operation, arguments in json.load(sys.stdin)], sys.stdout)
