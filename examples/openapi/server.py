"""An ordinary HTTP API that knows nothing of agents: its OpenAPI document is all that Toolgate needs."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NUMBER = {"type": "number"}
ADD = {
    "operationId": "add",
    "summary": "Adds two numbers.",
    "parameters": [{"name": name, "in": "query", "required": True, "schema": NUMBER} for name in ("a", "b")],
    "responses": {"200": {"description": "Their sum.", "content": {"application/json": {"schema": NUMBER}}}},
}
DOCUMENT = {"openapi": "3.1.0", "info": {"title": "Math", "version": "1.0.0"}, "paths": {"/add": {"get": ADD}}}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/openapi.json":
            self.answer(DOCUMENT)
        elif url.path == "/add":
            given = parse_qs(url.query)
            self.answer(float(given["a"][0]) + float(given["b"][0]))
        else:
            self.send_error(404)

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
