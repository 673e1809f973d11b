"""A tool server that speaks OTC 1.0 (Open Tool Calling): requests and results stand in envelopes."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = "otc://1.0"
ADD = {
    "id": "Math.Add",
    "name": "Math_Add",
    "version": "1.0.0",
    "description": "Adds two numbers.",
    "input_schema": {
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        }
    },
    "output_schema": {"type": "number"},
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # /tools
        self.answer({"$schema": VERSION, "tools": [ADD]})

    def do_POST(self):  # /tools/call
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))["request"]
        value = request["input"]["a"] + request["input"]["b"]
        self.answer({"$schema": VERSION, "result": {"call_id": request["call_id"], "success": True, "value": value}})

    def answer(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
