"""Runs `universal-tool-client` (PyPI) against one base URL and prints what it understood.

Started by the interpreter of `.venvs/universal-tool-client`: `drive_utc.py BASE_URL`, credential in TOOL_TOKEN.
Standard input is a JSON list of `[operation, arguments]`; standard output is the list of outcomes,
`{"answered": ...}` or `{"refused": {"kind", "status", "body"}}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import httpx
from universal_tool_client import SyncClient, get_sync_client


def perform(client: SyncClient, operation: str, arguments: dict[str, Any]) -> Any:
    """Performs one operation; `langchain` loads every tool and invokes one, as an agent framework does."""
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


def outcome(client: SyncClient, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answered": perform(client, operation, arguments)}
    except httpx.HTTPStatusError as error:
        reply = error.response
        return {"refused": {"kind": type(error).__name__, "status": reply.status_code, "body": reply.text}}
    except NotImplementedError as error:  # what its LangChain tools raise when a tool says success: false
        return {"refused": {"kind": type(error).__name__, "status": None, "body": None}}


if __name__ == "__main__":
    credential = {"Authorization": f"Bearer {os.environ['TOOL_TOKEN']}"}
    utc = get_sync_client(url=sys.argv[1], headers=credential)
    json.dump([outcome(utc, operation, arguments) for operation, arguments in json.load(sys.stdin)], sys.stdout)
