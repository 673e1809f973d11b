"""Makes a client of others do what `toolgate-conformance client` asks for: `judged.py CLIENT [without-ids]`.

Started by the interpreter of `.venvs/CLIENT`, CLIENT being `oxp` or `universal-tool-client`. It lists the tools, calls
the one that is named with what its definition requires, and prints the value. Everything else stays as the client
ships: its timeouts, its retries.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

KIT = {name.removeprefix("TOOLGATE_KIT_"): value for name, value in os.environ.items()}


def chosen(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The tool that is named; without a version the newest."""
    found = [tool for tool in tools if KIT["TOOL"] in (tool["id"], tool["id"].partition("@")[0])]
    if not found:
        sys.exit("There is no such tool.")
    return max(found, key=lambda tool: [int(number) for number in tool["id"].partition("@")[2].split(".")])


def context(tool: dict[str, Any]) -> dict[str, Any]:
    """Only what the tool requires."""
    required = tool.get("requirements") or {}
    access, secrets = json.loads(KIT["AUTHORIZATION"]), json.loads(KIT["SECRETS"])
    found = {
        "authorization": [{"id": it["id"], "token": access[it["id"]]} for it in required.get("authorization") or ()],
        "secrets": [{"id": it["id"], "value": secrets[it["id"]]} for it in required.get("secrets") or ()],
    }
    return {name: entries for name, entries in found.items() if entries}


def oxp(call_id: dict[str, str]) -> dict[str, Any]:
    """The result of a call by the official SDK."""
    from oxp import Oxp

    client = Oxp(base_url=KIT["URL"], bearer_token=KIT["TOKEN"])
    tool = chosen(client.tools.list().to_dict(mode="json").get("items") or [])
    request = {"tool_id": tool["id"], "input": json.loads(KIT["INPUT"]), **call_id}
    if lent := context(tool):
        request["context"] = lent
    result: dict[str, Any] = client.tools.call(request=request).to_dict(mode="json")["result"]
    return result


def universal_tool_client(call_id: dict[str, str]) -> dict[str, Any]:
    """The result of a call by LangChain's client."""
    from universal_tool_client import get_sync_client

    client = get_sync_client(url=KIT["URL"], headers={"Authorization": f"Bearer {KIT['TOKEN']}"})
    tool = chosen(client.tools.list())
    result: dict[str, Any] = client.tools.call(tool["id"], json.loads(KIT["INPUT"]), **call_id)
    return result


CLIENTS = {"oxp": oxp, "universal-tool-client": universal_tool_client}

if __name__ == "__main__":
    call_id = {} if "without-ids" in sys.argv else {"call_id": KIT["CALL_ID"]}
    try:
        result = CLIENTS[sys.argv[1]](call_id)
    except Exception as error:  # whatever a client raises, the call has no value
        body = getattr(error, "body", None) or getattr(getattr(error, "response", None), "text", "")
        sys.exit(f"{error!r} {body}")
    if not result.get("success"):
        sys.exit(str(result))
    print(json.dumps(result.get("value")))
