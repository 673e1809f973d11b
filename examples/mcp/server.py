"""A tool server that speaks MCP (Model Context Protocol, 2025-11-25) over HTTP, without a session."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADD = {
    "name": "add",
    "description": "Adds two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "math", "version": "1.0.0"},
}


def call(arguments):
    return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        match message["method"]:
            case "initialize":
                answer = {"result": HELLO}
            case "tools/list":
                answer = {"result": {"tools": [ADD]}}
            case "tools/call":
                answer = {"result": call(message["params"]["arguments"])}
            case _:
                answer = {"error": {"code": -32601, "message": "Method not found"}}
        is_request = "id" in message  # a notification has no answer
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode() if is_request else b""
        self.send_response(200 if is_request else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
