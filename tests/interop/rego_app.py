"""Open Policy Agent's data API as far as the gateway uses it, over policies in Rego that regorus evaluates.

The program `opa` itself cannot be had from a package index. Prints its port, as JSON.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import regorus

POLICY = Path(sys.argv[1]).read_text("utf-8")


class DataApi(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """`/v1/data/a/b` is the document at `data.a.b`, absent if it is undefined."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        engine = regorus.Engine()  # of this thread: no other may use it
        engine.add_policy("policy.rego", POLICY)
        engine.set_input_json(json.dumps(asked["input"]))
        found = json.loads(engine.eval_query_as_json(self.path.removeprefix("/v1/").replace("/", ".")))
        values = [each["expressions"][0]["value"] for each in found.get("result", ())]
        body = json.dumps({"result": values[0]} if values else {}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), DataApi)
print(json.dumps({"port": server.server_address[1]}), flush=True)
server.serve_forever()
