"""A client of RCRT that does what `toolgate-conformance client --protocol rcrt` asks for.

It reads TOOLGATE_KIT_*, and needs only the standard library, so that it starts at once. Each step is a method of its
own, for `bad_rcrt_client.py` to get wrong.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

ANSWER_S = 5.0
REOPEN_S = 0.1
ATTEMPTS = 2
REQUEST, RESPONSE = "tool.request.v1", "tool.response.v1"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Json = Any


class FailedError(Exception):
    """The call has no output; the message is for the user."""


class GoodClient:
    open_s = 2.0  # for the stream, before the request is sent without it
    patience_s = 10.0  # for the response
    poll_s = 0.4
    grace_s = 0.0  # after the response, for those that come again

    def __init__(self) -> None:
        told = {name.removeprefix("TOOLGATE_KIT_"): value for name, value in os.environ.items() if "_KIT_" in name}
        self.url, self.tool = told["URL"], told["TOOL"]
        self.identity = {"owner_id": told["OWNER_ID"], "agent_id": told["AGENT_ID"]}
        self.input = json.loads(told["INPUT"])
        self.id = f"kit-{uuid.uuid4()}"
        self.tag = f"kit:{self.id}"
        self.token = ""
        self.opened = threading.Event()
        self.contexts: queue.Queue[Json] = queue.Queue()
        self.is_done = False

    # Requests.

    def base(self) -> str:
        return self.url.rstrip("/")

    def target(self, path: str) -> str:
        return self.base() + path

    def send(self, method: str, path: str, document: Json = None, **headers: str) -> tuple[int, bytes]:
        """Status and body; with another token after a 401. Raises OSError without an answer."""
        answer = self.send_once(method, path, document, **headers)
        if answer[0] == 401:
            self.renew()
            answer = self.send_once(method, path, document, **headers)
        return answer

    def send_once(self, method: str, path: str, document: Json = None, **headers: str) -> tuple[int, bytes]:
        body = None if document is None else json.dumps(document).encode()
        fields = {"Content-Type": "application/json", **self.credentials(path)}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            with OPENER.open(
                urllib.request.Request(self.target(path), body, fields, method=method), timeout=ANSWER_S
            ) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.read()
        except (urllib.error.URLError, http.client.HTTPException) as exc:
            raise OSError(str(exc)) from exc

    def credentials(self, path: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def grant(self) -> dict[str, Json]:
        return self.identity | {"roles": ["emitter", "subscriber"], "ttl_sec": 3600}

    def renew(self) -> None:
        self.token = ""
        status, body = self.send_once("POST", "/auth/token", self.grant())
        if status != 200:
            raise FailedError(f"There is no token: {status}.")
        self.token = json.loads(body)["token"]

    # The request for the tool.

    def context(self) -> dict[str, Json]:
        return {"tool": self.tool, "input": self.input, "requestId": self.id, "requestedBy": "kit-client"}

    def draft(self) -> dict[str, Json]:
        ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        tags = ["tool:request", "workspace:tools", self.tag]
        return {"schema_name": REQUEST, "title": "Kit", "tags": tags, "ttl": ends, "context": self.context()}

    def request(self) -> None:
        """Stores the request, once."""
        for attempt in range(ATTEMPTS):
            key = f"{self.id}-{attempt}"
            try:
                status, body = self.send("POST", "/breadcrumbs", self.draft(), idempotency_key=key)
            except OSError:
                status, body = 0, b""
            if status == 200:
                return
            if status not in (0, 409) and status < 500:
                self.refused(status, body)
            elif self.is_stored(status):
                return
        self.never_stored()

    def refused(self, status: int, body: bytes) -> None:
        raise FailedError(f"The request was refused with {status}: {body.decode()}")

    def never_stored(self) -> None:
        raise FailedError("The request could not be stored.")

    def is_stored(self, status: int) -> bool:
        return bool(self.list(REQUEST, self.tag))

    def list(self, schema_name: str, tag: str) -> list[Json]:
        """The entries of a list; none while the server does not answer."""
        query = {"schema_name": schema_name, "tag": tag, "include_context": "true", "limit": 50}
        try:
            status, body = self.send("GET", f"/breadcrumbs?{urlencode(query)}")
        except OSError:
            return []
        return json.loads(body) if status == 200 else []

    # Events.

    def listen(self) -> None:
        """Reads the stream to its end, again and again."""
        while not self.is_done:
            with suppress(OSError, http.client.HTTPException):
                self.read_stream()
            self.after_stream()

    def after_stream(self) -> None:
        time.sleep(REOPEN_S)

    def read_stream(self) -> None:
        path = "/events/stream"
        request = urllib.request.Request(self.target(path), headers=self.credentials(path))
        with OPENER.open(request, timeout=20.0) as answer:
            self.opened.set()
            self.read_lines(answer)

    def read_lines(self, answer: http.client.HTTPResponse) -> None:
        for line in answer:
            self.take_line(line.decode())

    def take_line(self, line: str) -> None:
        name, _, value = line.rstrip("\r\n").partition(":")
        if name == "data":
            self.take_event(json.loads(value))

    def take_event(self, event: dict[str, Json]) -> None:
        if event.get("type", "breadcrumb.updated") in ("breadcrumb.updated", "breadcrumb.created"):
            self.take_crumb(event)

    def take_crumb(self, crumb: Mapping[str, Json]) -> None:
        context = crumb.get("context")
        if crumb.get("schema_name") == RESPONSE and isinstance(context, dict) and self.is_ours(context, crumb):
            self.settle(context)

    def is_ours(self, context: Mapping[str, Json], crumb: Mapping[str, Json]) -> bool:
        return self.id in (context.get("request_id"), context.get("requestId"))

    def settle(self, context: Json) -> None:
        if not self.is_done:
            self.is_done = True
            self.contexts.put(context)

    def poll(self) -> None:
        for tag in ("error", f"request:{self.id}"):
            for crumb in reversed(self.list(RESPONSE, tag)):
                self.take_crumb(crumb)

    # All of it.

    def wait(self) -> Json:
        """The context of the response."""
        ends_at = time.monotonic() + self.patience_s
        while time.monotonic() < ends_at:
            try:
                return self.contexts.get(timeout=self.poll_s)
            except queue.Empty:
                self.poll()
        raise FailedError("There is no response.")

    def print(self, context: Mapping[str, Json]) -> None:
        error = context.get("error")
        if context.get("status", "error" if error else "success") != "success":
            self.failed(str(error))
        else:
            print(json.dumps(context["output"] if "output" in context else context.get("result")))

    def failed(self, error: str) -> None:
        raise FailedError(error)

    def start(self) -> None:
        """Opens the stream before anything is requested."""
        threading.Thread(target=self.listen, daemon=True).start()
        self.opened.wait(self.open_s)

    def call(self) -> None:
        self.renew()
        self.start()
        self.request()
        self.print(self.wait())
        time.sleep(self.grace_s)
        while not self.contexts.empty():
            self.print(self.contexts.get())

    def run(self) -> int:
        try:
            self.call()
        except FailedError as exc:
            print(exc, file=sys.stderr)
            return 1
        return 0


def main(client: GoodClient) -> None:
    code = client.run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the thread that reads the stream is not waited for


if __name__ == "__main__":
    main(GoodClient())
