"""A tool server that calls back (RAP, Reactive Agent Protocol): it takes a call at once and posts its result later."""

import json
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUILD = {
    "name": "build",
    "description": "Builds something, for as long as it is told.",
    "inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]},
}


def build(call):
    time.sleep(call["arguments"]["seconds"])
    result = {"type": "tool_result", "group_id": call["group_id"], "id": call["id"], "text": "built"}
    headers = {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(call["callback_url"], json.dumps(result).encode(), headers)).close()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # /.well-known/rap-toolset
        url = f"http://127.0.0.1:{self.server.server_port}/invoke"
        self.answer({"name": "Builds", "endpoint": url, "tools": [BUILD]})

    def do_POST(self):  # /invoke, or a notice such as /close_thread
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/invoke":
            threading.Thread(target=build, args=[document]).start()
        self.answer({})

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
