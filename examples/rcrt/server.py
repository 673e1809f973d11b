"""A tool server of breadcrumbs (RCRT, Right Context, Right Time): one asks for a call, a later one has its result."""

import json
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

crumbs, streams = [], []


def store(schema_name, tags, context, **_):
    crumb = {"id": str(len(crumbs)), "schema_name": schema_name, "tags": tags, "context": context, "version": 1}
    crumbs.append(crumb)
    event = crumb | {"type": "breadcrumb.updated", "breadcrumb_id": crumb["id"]}
    for stream in streams:
        with suppress(OSError):  # nobody reads it any more
            stream.write(b"data: %b\n\n" % json.dumps(event).encode())
    if schema_name == "tool.request.v1":
        answer = {"request_id": context["requestId"], "status": "success", "output": sum(context["input"].values())}
        store("tool.response.v1", ["workspace:tools", f"request:{context['requestId']}"], answer)
    return crumb


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url, asked = urlsplit(self.path), dict(parse_qsl(urlsplit(self.path).query))
        if url.path == "/events/stream":
            self.answer()
            streams.append(self.wfile)
            with suppress(OSError):
                while self.wfile.write(b'data: {"type": "ping"}\n\n'):
                    time.sleep(5)
            streams.remove(self.wfile)
        elif url.path == "/breadcrumbs":
            self.answer([c for c in crumbs if c["schema_name"] == asked["schema_name"] and asked["tag"] in c["tags"]])
        else:  # /breadcrumbs/{id}/full
            self.answer(crumbs[int(url.path.split("/")[2])])

    def do_POST(self):
        crumb = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.answer({"token": "any"} if self.path == "/auth/token" else store(**crumb))

    def answer(self, document=None):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if document is None else "application/json")
        self.end_headers()
        self.wfile.write(b"" if document is None else json.dumps(document).encode())


INPUT = {"type": "object", "properties": {name: {"type": "number"} for name in "ab"}, "required": ["a", "b"]}
ADD = {"name": "add", "description": "Adds two numbers.", "input_schema": INPUT}
store("tool.code.v1", ["tool:add", "workspace:tools"], ADD)
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
