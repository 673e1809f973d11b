"""A tool server with too long a list, as a process of its own: sending 60 MB would delay the process that measures.

Takes the name of the list; prints where it listens. Its first answer is an empty list.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LONG = 60 * 1000 * 1000  # bytes, below the limit of 64 MiB
RECURSIVE = 50  # tools of the mixed list
MANY_RECURSIVE = 500  # of a list of nothing else: 5 s of processor time on a quiet machine, 15 on a busy one


def _definition(tool: str, schema: dict[str, Any]) -> bytes:
    named = {"id": f"{tool}@1.0.0", "name": tool.replace(".", "_"), "description": "", "version": "1.0.0"}
    return json.dumps(named | {"input_schema": {"parameters": schema}, "output_schema": {}}).encode()


def _ordinary(tool: str) -> bytes:
    named = {f"parameter_{number}": {"type": "string", "description": "Some words."} for number in range(6)}
    return _definition(tool, {"type": "object", "properties": named})


def _recursive(tool: str) -> bytes:
    """A schema that takes 10 ms."""
    names = [f"d{number}" for number in range(60)]
    defs = {
        name: {
            "properties": {"x": {"$ref": f"#/$defs/{names[at - 1]}"}, "y": {"$ref": f"#/$defs/{names[at * 7 % 60]}"}}
        }
        for at, name in enumerate(names)
    }
    return _definition(tool, {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs})


def _tools(name: str) -> Iterator[bytes]:
    match name:
        case "mixed":
            yield _ordinary("Hostile.T0")
            # 10 million alternatives
            yield b'{"id":"Hostile.Enum","input_schema":{"enum":[%b]}}' % b",".join([b"[]"] * (LONG // 6))
            yield from (_recursive(f"Hostile.T{number}") for number in range(1, RECURSIVE + 1))
            yield b",".join([b"{}"] * (LONG // 6))  # 10 million tools that are none
        case "recursive":
            yield from (_recursive(f"Hostile.T{number}") for number in range(MANY_RECURSIVE))
        case "ordinary":
            yield from (_ordinary(f"Hostile.T{number}") for number in range(20_000))
        case _:
            raise ValueError(name)


def _listed(tools: Iterable[bytes]) -> bytes:
    return b'{"$schema":"otc://1.0","tools":[%b]}' % b",".join(tools)


def main(name: str) -> None:
    body, empty = _listed(_tools(name)), [_listed([])]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = empty.pop() if empty else body
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
