"""httpbin (PyPI): an API with a Swagger 2.0 document that echoes what it gets. Prints its port as JSON."""

from __future__ import annotations

import json
import logging

from httpbin import app
from werkzeug.serving import WSGIRequestHandler, make_server


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
    print(json.dumps({"port": server.server_port}), flush=True)
    server.serve_forever()
