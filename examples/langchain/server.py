"""A tool server in the form of LangChain's universal-tool-server: requests in envelopes, flat answers, a bare list."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADD = {
    "id": "Math.Add@1.0.0",
    "name": "Add",
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
        self.answer([ADD])

    def do_POST(self):  # /tools/call
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))["request"]
        value = request["input"]["a"] + request["input"]["b"]
        self.answer({"call_id": request["call_id"], "success": True, "value": value})

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
