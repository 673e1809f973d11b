"""A client that does what `toolgate-conformance client` asks for, in any dialect of OTC and OXP.

`good_client.py FORM` reads TOOLGATE_KIT_*; only the standard library, so that it starts at once. Each step is a method
of its own, for `bad_client.py` to get wrong.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

RFC_SCHEMA = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
SCHEMAS = {"otc": "otc://1.0", "rfc": RFC_SCHEMA, "oxp-env": "urn:oxp:1.0", "lc": "otc://1.0"}
LIST_MEMBERS = {"otc": "tools", "rfc": "tools", "oxp": "items", "oxp-env": "items"}
ATTEMPTS = 3
ANSWER_S = 20.0

Answer = tuple[int, Mapping[str, str], bytes]


class FailedError(Exception):
    """The call has no value; the message is for the user."""


class GoodClient:
    def __init__(self, form: str) -> None:
        self.form = form
        self.url = os.environ["TOOLGATE_KIT_URL"]
        self.token = os.environ["TOOLGATE_KIT_TOKEN"]
        self.tool = os.environ["TOOLGATE_KIT_TOOL"]
        self.input = json.loads(os.environ["TOOLGATE_KIT_INPUT"])
        self.call_id = os.environ["TOOLGATE_KIT_CALL_ID"]
        self.access = json.loads(os.environ["TOOLGATE_KIT_AUTHORIZATION"])
        self.secrets = json.loads(os.environ["TOOLGATE_KIT_SECRETS"])
        self.call_path = "/call" if form == "rfc" else "/tools/call"
        self.content_type = "application/json"
        self.answer_s = ANSWER_S

    # Requests.

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} | ({"OXP-Version": "1.0"} if self.form == "oxp" else {})

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        parts = urlsplit(url)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=self.answer_s)
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    # The list.

    def list_tools(self) -> list[dict[str, Any]]:
        status, _, body = self.send("GET", f"{self.url}/tools", self.headers())
        if status != 200:
            raise FailedError(f"The list has status {status}.")
        return self.tools_in(json.loads(body))

    def tools_in(self, document: Any) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = document if self.form == "lc" else document[LIST_MEMBERS[self.form]]
        return listed

    def chosen(self, tools: list[dict[str, Any]]) -> dict[str, Any]:
        """The tool that is named; without a version the newest."""
        found = [each for each in tools if self.tool in (each["id"], each["id"].partition("@")[0])]
        if not found:
            raise FailedError(f"There is no tool {self.tool}.")
        return max(found, key=self.age)

    def age(self, tool: Mapping[str, Any]) -> Any:
        return [int(number) for number in tool["id"].partition("@")[2].split(".")]

    # The call.

    def context(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        """Only what the tool requires."""
        required = tool.get("requirements") or {}
        access = [it["id"] for it in required.get("authorization", ()) if it["id"] in self.access]
        secrets = [it["id"] for it in required.get("secrets", ()) if it["id"] in self.secrets]
        context: dict[str, Any] = {}
        if access:
            context["authorization"] = [{"id": id_, "token": self.access[id_]} for id_ in access]
        if secrets:
            context["secrets"] = [{"id": id_, "value": self.secrets[id_]} for id_ in secrets]
        return context

    def request(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        request = {"tool_id": tool["id"], "input": self.input, "call_id": self.call_id}
        if context := self.context(tool):
            request["context"] = context
        return request

    def body(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return dict(request) if self.form == "oxp" else {"$schema": SCHEMAS[self.form], "request": request}

    def call(self, tool: Mapping[str, Any]) -> Any:
        """The value of a call, which is sent again where that is safe."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return self.value(self.post(self.request(tool)))
            except RepeatableError as exc:
                if not self.goes_on(attempt):
                    raise FailedError(str(exc)) from exc
                time.sleep(self.pause_s(exc.after_s))

    def goes_on(self, attempt: int) -> bool:
        return attempt < ATTEMPTS

    def pause_s(self, after_s: float) -> float:
        return after_s

    def post(self, request: Mapping[str, Any]) -> Answer:
        headers = self.headers() | {"Content-Type": self.content_type}
        try:
            return self.send("POST", self.url + self.call_path, headers, self.encode(self.body(request)))
        except (OSError, http.client.HTTPException) as exc:
            raise self.broken(str(exc)) from exc

    def broken(self, why: str) -> Exception:
        """The tool may have run: the call may go again under its id."""
        return RepeatableError(f"The connection broke: {why}", 0.05)

    def encode(self, document: Any) -> bytes:
        return json.dumps(document, ensure_ascii=False).encode()

    # The answer.

    def value(self, answer: Answer) -> Any:
        status, headers, body = answer
        try:
            document = self.decode(body)
        except ValueError:
            raise FailedError(f"The answer is no JSON (status {status}).") from None
        if status == 429:
            raise RepeatableError("Too many calls.", float(headers.get("retry-after", 1)))
        if status >= 500:
            raise self.broken(f"status {status}")
        if status != 200:
            return self.refused(status, document, headers)
        result = document["result"] if self.form in ("otc", "oxp-env") else document
        return self.outcome(result, result.get("output", {}) if self.form == "rfc" else result)

    def decode(self, body: bytes) -> Any:
        return json.loads(body)

    def outcome(self, result: Mapping[str, Any], holder: Mapping[str, Any]) -> Any:
        if result["success"]:
            return holder["value"]
        return self.failed(holder["error"])

    def failed(self, error: Mapping[str, Any]) -> Any:
        if self.can_retry(error):
            raise RepeatableError(error["message"], error.get("retry_after_ms", 0) / 1000)
        raise FailedError(self.shown(error))

    def can_retry(self, error: Mapping[str, Any]) -> bool:
        return bool(error.get("can_retry"))

    def refused(self, status: int, document: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        challenges = (document.get("missing_requirements") or {}).get("authorization", ())
        for challenge in challenges:
            self.challenged(challenge)
        raise FailedError(self.shown(document))

    def challenged(self, challenge: Mapping[str, str]) -> None:
        print(f"Open {challenge['url']}", file=sys.stderr)
        self.send("GET", challenge["check_url"], {})

    def shown(self, failure: Mapping[str, Any]) -> str:
        errors = failure.get("parameter_errors") or {}
        return "\n".join([failure["message"], *(f"{name}: {text}" for name, text in errors.items())])

    # All of it.

    def print(self, value: Any) -> None:
        print(json.dumps(value))

    def run(self) -> int:
        try:
            self.print(self.call(self.chosen(self.list_tools())))
        except FailedError as exc:
            print(exc, file=sys.stderr)
            return 1
        return 0


class RepeatableError(Exception):
    """The call may be sent again, `after_s` seconds later."""

    def __init__(self, why: str, after_s: float) -> None:
        super().__init__(why)
        self.after_s = after_s


if __name__ == "__main__":
    sys.exit(GoodClient(sys.argv[1]).run())
