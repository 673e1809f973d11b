"""Runs the official OXP client (`oxp` on PyPI) against one base URL and prints what it understood.

Started by the interpreter of `.venvs/oxp`: `drive_oxp.py BASE_URL`, credential in OXP_API_KEY. Standard input is a
JSON list of `[operation, arguments]`; standard output is the list of outcomes, `{"answered": ...}` or
`{"refused": {"kind", "status", "body"}}`. Everything else stays as the client ships: its timeouts, its retries.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from oxp import APIStatusError, Oxp


def perform(client: Oxp, operation: str, arguments: dict[str, Any]) -> Any:
    """Performs one operation; the answer is what the client's own types hold of it."""
    match operation:
        case "health":
            return client.health.check()
        case "list":
            return client.tools.list().to_dict(mode="json")
        case "call":
            return client.tools.call(**arguments).to_dict(mode="json")
        case _:
            raise ValueError(operation)


def outcome(client: Oxp, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answered": perform(client, operation, arguments)}
    except APIStatusError as error:
        return {"refused": {"kind": type(error).__name__, "status": error.status_code, "body": error.body}}


if __name__ == "__main__":
    with Oxp(base_url=sys.argv[1]) as oxp:
        json.dump([outcome(oxp, operation, arguments) for operation, arguments in json.load(sys.stdin)], sys.stdout)
