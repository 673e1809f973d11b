"""A tool server that speaks OXP 1.0 (Open eXecution Protocol): a list of tools, and calls of them."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADD = {
    "id": "Math.Add@1.0.0",
    "name": "Math_Add",
    "version": "1.0.0",
    "description": "Adds two numbers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
    "output_schema": {"type": "number"},
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # /tools
        self.answer({"items": [ADD]})

    def do_POST(self):  # /tools/call
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        value = call["input"]["a"] + call["input"]["b"]
        self.answer({"call_id": call["call_id"], "success": True, "value": value})

    def answer(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("oxp-version", "1.0")
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
