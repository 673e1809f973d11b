"""The good client with one mistake: `python -m conformance.tests.bad_client FORM --mistake NAME`."""

from __future__ import annotations

import json
import sys
import time
import uuid
import webbrowser
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from conformance.tests.good_client import Answer, FailedError, GoodClient, RepeatableError


class ListsNothing(GoodClient):
    def list_tools(self) -> list[dict[str, Any]]:
        return [{"id": self.tool}]


class NamesNoVersion(GoodClient):
    def headers(self) -> dict[str, str]:
        return {name: value for name, value in super().headers().items() if name != "OXP-Version"}

    def body(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in super().body(request).items() if name != "$schema"}


class NamesOtherVersion(GoodClient):
    def headers(self) -> dict[str, str]:
        return super().headers() | ({"OXP-Version": "2.0"} if self.form == "oxp" else {})

    def body(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return super().body(request) | ({} if self.form == "oxp" else {"$schema": "otc://2.0"})


class DropsPath(GoodClient):
    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.url = f"http://{urlsplit(self.url).netloc}"


class CallsElsewhere(GoodClient):
    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.call_path = "/tools/invoke"


class SendsText(GoodClient):
    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.content_type = "text/plain"


class ChangesInput(GoodClient):
    def request(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        return super().request(tool) | {"input": self.input | {"session": "s-1"}}


class AddsMember(GoodClient):
    def request(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        return super().request(tool) | {"model": "m-1"}


class MakesItsOwnId(GoodClient):
    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.call_id = str(uuid.uuid4())


class SendsNoId(GoodClient):
    def request(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in super().request(tool).items() if name != "call_id"}


class HasOneId(GoodClient):
    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.call_id = "call-1"


class CallsTwice(GoodClient):
    def call(self, tool: Mapping[str, Any]) -> Any:
        super().call(tool)
        return super().call(tool)


class DropsVersion(GoodClient):
    def request(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        return super().request(tool) | {"tool_id": tool["id"].partition("@")[0]}


class ComparesText(GoodClient):
    def age(self, tool: Mapping[str, Any]) -> Any:
        return tool["id"]


class SpeaksAscii(GoodClient):
    def encode(self, document: Any) -> bytes:
        return json.dumps(document, ensure_ascii=False).encode("ascii", "replace")


class CountsInFloats(GoodClient):
    def decode(self, body: bytes) -> Any:
        return json.loads(body, parse_int=float)


class PrintsResult(GoodClient):
    def outcome(self, result: Mapping[str, Any], holder: Mapping[str, Any]) -> Any:
        super().outcome(result, holder)
        return result


class TakesNullForFailure(GoodClient):
    def outcome(self, result: Mapping[str, Any], holder: Mapping[str, Any]) -> Any:
        if holder.get("value") is None:
            raise FailedError("There is no value.")
        return super().outcome(result, holder)


class KnowsAllMembers(GoodClient):
    def outcome(self, result: Mapping[str, Any], holder: Mapping[str, Any]) -> Any:
        if result.keys() - {"call_id", "success", "duration", "value", "error"}:
            raise FailedError("This is no result.")
        return super().outcome(result, holder)


class WaitsForHalfASecond(GoodClient):
    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.answer_s = 0.5


class WantsTypes(GoodClient):
    def tools_in(self, document: Any) -> list[dict[str, Any]]:
        found = super().tools_in(document)
        if any(each["input_schema"]["type"] != "object" for each in found):
            raise FailedError("Not of an object.")
        return found


class TakesNoToolForSuccess(GoodClient):
    def chosen(self, tools: list[dict[str, Any]]) -> dict[str, Any]:
        if not tools:
            sys.exit(0)
        return super().chosen(tools)


class TakesRefusedListForSuccess(GoodClient):
    def list_tools(self) -> list[dict[str, Any]]:
        try:
            return super().list_tools()
        except FailedError:
            sys.exit(0)


class NeverEnds(GoodClient):
    def chosen(self, tools: list[dict[str, Any]]) -> dict[str, Any]:
        while not tools:
            time.sleep(1)
        return super().chosen(tools)


class TakesPagesForValues(GoodClient):
    def value(self, answer: Answer) -> Any:
        return super().value(answer) if answer[2].startswith(b"{") else answer[2].decode()


class IgnoresFailures(GoodClient):
    def failed(self, error: Mapping[str, Any]) -> Any:
        return None


class IgnoresRefusals(GoodClient):
    def refused(self, status: int, document: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        print(self.shown(document), file=sys.stderr)


class RetriesAll(GoodClient):
    def can_retry(self, error: Mapping[str, Any]) -> bool:
        return True


class RetriesUnlessTold(GoodClient):
    def can_retry(self, error: Mapping[str, Any]) -> bool:
        return bool(error.get("can_retry", True))


class RetriesRefusals(GoodClient):
    def refused(self, status: int, document: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        raise RepeatableError(self.shown(document), 0.01)


class SaysNothing(GoodClient):
    def shown(self, failure: Mapping[str, Any]) -> str:
        return "Something went wrong."


class SaysMessageOnly(GoodClient):
    def shown(self, failure: Mapping[str, Any]) -> str:
        return str(failure["message"])


class DoesNotPause(GoodClient):
    def pause_s(self, after_s: float) -> float:
        return 0.0


class TriesOnce(GoodClient):
    def goes_on(self, attempt: int) -> bool:
        return False


class TriesOnAndOn(GoodClient):
    def goes_on(self, attempt: int) -> bool:
        return attempt < 30


class RepeatsUnderNewIds(GoodClient):
    def request(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        request = super().request(tool)
        self.call_id = str(uuid.uuid4())
        return request


class GivesUpWhenBroken(GoodClient):
    def broken(self, why: str) -> Exception:
        return FailedError(why)


class ListsWithoutCredential(GoodClient):
    def list_tools(self) -> list[dict[str, Any]]:
        return self.tools_in(json.loads(self.send("GET", f"{self.url}/tools", {"OXP-Version": "1.0"})[2]))


class HasCredentialInUrl(GoodClient):
    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.call_path += f"?key={self.token}"


class HasSecretInUrl(GoodClient):
    def context(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        context = super().context(tool)
        for each in context.get("secrets", ()):
            self.call_path += f"?secret={each['value']}"
        return context


class FollowsRedirects(GoodClient):
    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        answer = super().send(method, url, headers, body)
        if answer[0] != 307:
            return answer
        return super().send(method, answer[1]["location"], self.kept(headers), body)

    def kept(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        return headers


class FollowsWithoutCredential(FollowsRedirects):
    def kept(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        return {name: value for name, value in headers.items() if name != "Authorization"}


class PrintsCredential(GoodClient):
    def shown(self, failure: Mapping[str, Any]) -> str:
        return f"{failure['message']}: {self.headers()}"


class PrintsSecrets(GoodClient):
    def shown(self, failure: Mapping[str, Any]) -> str:
        return f"{failure['message']}: {self.secrets}"


class SendsAllSecrets(GoodClient):
    def context(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "authorization": [{"id": id_, "token": token} for id_, token in self.access.items()],
            "secrets": [{"id": id_, "value": value} for id_, value in self.secrets.items()],
        }


class MisspellsSecrets(GoodClient):
    def context(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        context = super().context(tool)
        return context | {"secrets": {it["id"]: it["value"] for it in context.get("secrets", ())}}


class OpensPage(GoodClient):
    def challenged(self, challenge: Mapping[str, str]) -> None:
        super().challenged(challenge)
        self.send("GET", challenge["url"], {})


class UsesBrowser(GoodClient):
    """No mistake: the user sees the page."""

    def challenged(self, challenge: Mapping[str, str]) -> None:
        webbrowser.open(challenge["url"])
        self.send("GET", challenge["check_url"], {})


class HidesPage(GoodClient):
    def challenged(self, challenge: Mapping[str, str]) -> None:
        self.send("GET", challenge["check_url"], {})


class ShowsCredentialToProvider(GoodClient):
    def challenged(self, challenge: Mapping[str, str]) -> None:
        print(f"Open {challenge['url']}", file=sys.stderr)
        self.send("GET", challenge["check_url"], self.headers())


class DoesNotWaitForUser(GoodClient):
    def refused(self, status: int, document: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        try:
            super().refused(status, document, headers)
        except FailedError as exc:
            raise RepeatableError(str(exc), 0.01) from exc


if __name__ == "__main__":
    form, mistake = sys.argv[1], sys.argv[3]
    client: type[GoodClient] = globals()[mistake]
    sys.exit(client(form).run())
