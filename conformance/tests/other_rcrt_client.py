"""The good client of RCRT in another way that is right: `python -m conformance.tests.other_rcrt_client NAME`."""

from __future__ import annotations

import json
import sys

from conformance.tests.good_rcrt_client import REQUEST, GoodClient, Json, main


class OpensNoStream(GoodClient):
    poll_s = 0.1

    def start(self) -> None:
        pass


class NamesNoId(GoodClient):
    """Leaves it to the server to name the request, by its breadcrumb."""

    def context(self) -> dict[str, Json]:
        return {name: value for name, value in super().context().items() if name != "requestId"}

    def send(self, method: str, path: str, document: Json = None, **headers: str) -> tuple[int, bytes]:
        status, body = super().send(method, path, document, **headers)
        if (method, path, status) == ("POST", "/breadcrumbs", 200):
            self.id = json.loads(body)["id"]
        return status, body

    def is_stored(self, status: int) -> bool:
        for crumb in self.list(REQUEST, self.tag):
            self.id = crumb["id"]
            return True
        return False


class SendsTokenInQuery(GoodClient):
    def target(self, path: str) -> str:
        separator = "&" if "?" in path else "?"
        return super().target(path) + (f"{separator}access_token={self.token}" if self.token else "")

    def credentials(self, path: str) -> dict[str, str]:
        return {}


if __name__ == "__main__":
    client: type[GoodClient] = globals()[sys.argv[1]]
    main(client())
