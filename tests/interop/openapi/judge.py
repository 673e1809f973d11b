"""openapi-core (PyPI) behind HTTP: `judge.py DOCUMENT` says of each request what it understood, or answers 422.

Started by the interpreter of `.venvs/openapi`; prints its port as JSON. What it makes of a document is what its
`unmarshal_request` returns, which collects errors and raises none, but for some of its own.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from openapi_core import OpenAPI
from openapi_core.contrib.werkzeug import WerkzeugOpenAPIRequest
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response


class Judge:
    """A WSGI application."""

    def __init__(self, document: str) -> None:
        self._openapi = OpenAPI.from_file_path(document)

    def __call__(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        request.get_data(cache=True)  # whatever becomes of it: the connection is used again
        status, said = self._judged(request)
        return Response(json.dumps(said, default=str), status, content_type="application/json")(environ, start_response)

    def _judged(self, request: Request) -> tuple[int, dict[str, Any]]:
        try:
            result = self._openapi.unmarshal_request(WerkzeugOpenAPIRequest(request))
            errors = list(result.errors)
        except Exception as error:  # its own
            return 422, {"message": f"openapi-core broke: {error!r}"}
        if errors:
            return 422, {"message": "; ".join(_chain(error) for error in errors)}
        found = result.parameters
        understood = {**found.path, **found.query, **found.header, **found.cookie}
        return 200, understood if result.body is None else {**understood, "body": result.body}


def _chain(error: BaseException) -> str:
    """What is wrong, and why."""
    said = [str(error) or type(error).__name__]
    while error := error.__cause__ or error.__context__:  # type: ignore[assignment]
        said.append(str(error) or type(error).__name__)
    said += [each.message for each in getattr(error, "schema_errors", ())]
    return ": ".join(said)


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = make_server("127.0.0.1", 0, Judge(sys.argv[1]), threaded=True, request_handler=Handler)
    print(json.dumps({"port": server.server_port}), flush=True)
    server.serve_forever()
