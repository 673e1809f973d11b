"""The good RAP runtime with one mistake: `python -m conformance.tests.bad_runtime NAME`."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Mapping

from conformance.tests import bad_notices
from conformance.tests.good_runtime import FailedError, GoodRuntime, Json


class KnowsTheTool(GoodRuntime):
    def toolset(self) -> Json:
        return {"endpoint": f"{self.base()}/kit/invoke", "tools": [{"name": self.tool, "description": "Known."}]}


class KeepsTheSlash(GoodRuntime):
    def base(self) -> str:
        return self.url


class TakesWhatFits(GoodRuntime):
    def check(self, toolset: Json) -> None:
        super().check({"tools": [tool for tool in toolset["tools"] if "description" in tool]})


class HasNoGroup(GoodRuntime):
    def invocation(self, callback_url: str) -> dict[str, Json]:
        return super().invocation(callback_url) | {"group_id": None}

    def is_ours(self, message: Mapping[str, Json]) -> bool:
        return message.get("id") == self.id


class SendsText(GoodRuntime):
    def headers(self, url: str) -> dict[str, str]:
        return super().headers(url) | {"Content-Type": "text/plain"}


class AddsArgument(GoodRuntime):
    def invocation(self, callback_url: str) -> dict[str, Json]:
        return super().invocation(callback_url) | {"arguments": self.arguments | {"session": "s-1"}}


class HasOneId(GoodRuntime):
    def __init__(self) -> None:
        super().__init__()
        self.id = "call-1"


class RetriesRefusals(GoodRuntime):
    def may_retry(self, status: int) -> bool:
        return True


class TriesOnce(GoodRuntime):
    def may_retry(self, status: int) -> bool:
        return False


class RetriesUnderNewIds(GoodRuntime):
    def lost_acknowledgement(self, endpoint: str, callback_url: str) -> None:
        self.id = str(uuid.uuid4())
        self.invoke(endpoint, callback_url)


class InvokesAgain(GoodRuntime):
    """Does not wait for results and consent for longer than half a second."""

    def invoke(self, endpoint: str, callback_url: str) -> None:
        super().invoke(endpoint, callback_url)
        time.sleep(0.5)
        if self.results.empty():
            super().invoke(endpoint, callback_url)


class PrintsNothing(GoodRuntime):
    def print(self, text: str) -> None:
        if text.startswith("Error: "):
            raise FailedError(text)


class AnswersWithError(GoodRuntime):
    def receive(self, path: str, body: bytes) -> int:
        super().receive(path, body)
        return 500


class HasOnePath(GoodRuntime):
    def new_path(self) -> str:
        return "/callback-of-this-program"


class TakesAnyPath(GoodRuntime):
    def knows(self, path: str) -> bool:
        return True


class TakesAnyId(GoodRuntime):
    def is_ours(self, message: Mapping[str, Json]) -> bool:
        return message.get("group_id") == self.group_id


class TakesAnyGroup(GoodRuntime):
    def is_ours(self, message: Mapping[str, Json]) -> bool:
        return message.get("id") == self.id


class RegistersLater(GoodRuntime):
    is_known = False

    def invoke(self, endpoint: str, callback_url: str) -> None:
        super().invoke(endpoint, callback_url)
        self.is_known = True

    def is_ours(self, message: Mapping[str, Json]) -> bool:
        return self.is_known and super().is_ours(message)


class PrintsAll(GoodRuntime):
    def settle(self, text: str) -> None:
        self.results.put(text)


class ReadsText(GoodRuntime):
    def text(self, message: Mapping[str, Json]) -> str:
        return str(message["text"])


class TakesViewsForResults(GoodRuntime):
    def viewed(self, message: Mapping[str, Json]) -> None:
        self.settle(str(message["content"]))


class AcceptsAllTypes(GoodRuntime):
    def unknown(self, message: Mapping[str, Json]) -> int:
        return 200


class TakesNewsForResults(GoodRuntime):
    def unknown(self, message: Mapping[str, Json]) -> int:
        self.settle("Something happened.")
        return 400


class HidesFailures(GoodRuntime):
    def print(self, text: str) -> None:
        super().print("Error: " if text.startswith("Error: ") else text)


class HidesConsent(GoodRuntime):
    def consent(self, message: Mapping[str, Json]) -> None:
        pass


class ChoosesNothing(GoodRuntime):
    def choose(self, message: Mapping[str, Json]) -> None:
        pass


class ChoosesByName(GoodRuntime):
    def choose(self, message: Mapping[str, Json]) -> None:
        self.send(message["response_url"], {"id": self.id, "selected": message["choices"][0]})


if __name__ == "__main__":
    runtime: type[GoodRuntime] = (vars(bad_notices) | globals())[sys.argv[1]]
    code = runtime().run()
    sys.stdout.flush()
    os._exit(code)  # its callbacks are not waited for
