"""An MCP server on standard input and output, by hand. One word says which: `legacy`, `modern`, `both`, `exits`...

It uses nothing of the gateway. Each tool is one thing a server may do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

MODERN = "2026-07-28"
FLOODS = {"floods-stdout": sys.stdout, "floods-stderr": sys.stderr}  # without an end, once a tool was called
TOOLS = ("echo", "crash", "hang", "swap", "ask", "complain", "babble")


def say(**members: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Server:
    def __init__(self, era: str) -> None:
        self._is_modern = era == "modern"
        self._is_undecided = era == "both"  # until its first request, as servers made with the Python SDK are
        self._held: list[Any] = []  # calls of `swap` that wait for another
        self._asker: Any = None  # the call of `ask` that waits for an answer

    def hear(self, message: Any) -> None:
        method, id_, params = message.get("method"), message.get("id"), message.get("params") or {}
        if self._is_undecided:
            self._is_modern, self._is_undecided = "_meta" in params, False
        if method is None:
            refused = message.get("error", {}).get("code")
            self._tell(self._asker, f"refused: {refused}")
        elif method == "notifications/cancelled":
            complain(f"cancelled: {params['reason']}")
        elif method == "tools/call":
            self._call(id_, params["name"], params.get("arguments", {}))
        elif id_ is not None:
            self._answer(id_, method, params)

    def _answer(self, id_: Any, method: str, params: Any) -> None:
        if method == "tools/list":
            tools = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            say(id=id_, result={"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "public"})
        elif method == "server/discover" and self._is_modern:
            result = {"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}}}
            say(id=id_, result={**result, "ttlMs": 0, "cacheScope": "public"})
        elif method == "initialize" and not self._is_modern:
            version = params["protocolVersion"]
            about = {"name": "by hand", "version": "1"}
            say(id=id_, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
        else:
            say(id=id_, error={"code": -32601, "message": "Method not found"})

    def _call(self, id_: Any, name: str, arguments: Any) -> None:
        match name:
            case "echo":
                self._tell(id_, json.dumps(arguments))
            case "crash":
                os._exit(3)
            case "hang":
                complain("hangs")
            case "swap":  # two calls, answered in the other order
                self._held.append((id_, arguments))
                while len(self._held) == 2:
                    for held, given in reversed(self._held):
                        self._tell(held, json.dumps(given))
                    self._held.clear()
            case "ask":
                self._asker = id_
                say(id="of the server", method="sampling/createMessage", params={})
            case "complain":
                complain("It is said on standard error.")
                self._tell(id_, "")
            case "babble":
                print("Listening...", flush=True)
                self._tell(id_, "")

    def _tell(self, id_: Any, text: str) -> None:
        say(id=id_, result={"resultType": "complete", "content": [{"type": "text", "text": text}]})


def main(kind: str) -> None:
    if kind == "exits":
        complain("I have no configuration.")
        sys.exit(5)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = Server(kind)
    for line in sys.stdin:
        server.hear(json.loads(line))
        while kind == "deaf" and '"tools/call"' in line:  # it reads no more
            signal.pause()
        while kind in FLOODS and '"tools/call"' in line:
            FLOODS[kind].write("Listening...\n" * 1000)
    complain("My input was closed.")
    while kind == "stubborn":
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
