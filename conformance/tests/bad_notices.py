"""The good RAP runtime with one mistake about subscriptions, cancellations or closures; see `bad_runtime.py`."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from conformance.tests.good_runtime import GoodRuntime, Json

EVENT = "kit-event-5"
NOTICES = ("/cancel_tool_call", "/close_thread")
LONG_S = 20.0


# Subscriptions.


class PrintsOnlyEvents(GoodRuntime):
    def print(self, text: str) -> None:
        if not self.is_subscribed or text == EVENT:
            super().print(text)


class TakesEventsForResults(GoodRuntime):
    def take_event(self, message: Mapping[str, Json]) -> int:
        self.settle(str(message["text"]))
        return 200


class LooksForId(GoodRuntime):
    def is_of_ours(self, event: Mapping[str, Json]) -> bool:
        return self.is_ours(event)


class TakesEventsOfOtherCalls(GoodRuntime):
    def is_of_ours(self, event: Mapping[str, Json]) -> bool:
        return event.get("group_id") == self.group_id


class TakesEventsOfOtherThreads(GoodRuntime):
    def is_of_ours(self, event: Mapping[str, Json]) -> bool:
        return event.get("tool_call_id") == self.id


class ReadsOn(GoodRuntime):
    """Does not take the final event for the last one."""

    def take_event(self, message: Mapping[str, Json]) -> int:
        self.events.put({**message, "final": False})
        return 200


class LeavesSubscriptions(GoodRuntime):
    def follow(self) -> None:
        pass


# Notices.


class CancelsNothing(GoodRuntime):
    def cancel(self) -> None:
        pass


class CancelsByNamesOfInvocations(GoodRuntime):
    def cancellation(self) -> Json:
        return {"group_id": self.group_id, "id": self.id}


class CancelsWholeThread(GoodRuntime):
    def cancellation(self) -> Json:
        return super().cancellation() | {"tool_call_id": None}


class SendsTextNotices(GoodRuntime):
    def headers(self, url: str) -> dict[str, str]:
        return super().headers(url) | ({"Content-Type": "text/plain"} if url.endswith(NOTICES) else {})


class NotifiesEndpoint(GoodRuntime):
    def notify(self, path: str, document: Json) -> None:
        super().notify("/kit/invoke" + path, document)


class NotifiesRoot(GoodRuntime):
    is_over = False

    def base(self) -> str:
        return self.url.removesuffix("/kit/v1/") if self.is_over else super().base()

    def notify(self, path: str, document: Json) -> None:
        self.is_over = True
        super().notify(path, document)


class RepeatsNotices(GoodRuntime):
    def notify(self, path: str, document: Json) -> None:
        status, _ = self.send(self.base() + path, document)
        if status != 200:
            super().notify(path, document)


class WaitsForNotices(GoodRuntime):
    def cancel(self) -> None:
        self.send(f"{self.base()}/cancel_tool_call", self.cancellation(), LONG_S)


class NotifiesWithoutToken(GoodRuntime):
    def headers(self, url: str) -> dict[str, str]:
        found = super().headers(url)
        return {name: found[name] for name in found if name == "Content-Type" or not url.endswith(NOTICES)}


class InvokesAfterCancelling(GoodRuntime):
    def cancel(self) -> None:
        super().cancel()
        self.send(f"{self.base()}/kit/invoke", self.invocation("http://127.0.0.1:9/callback"))


class FailsAfterCancelling(GoodRuntime):
    """Answers with an error once the call is over, and is still there to do so."""

    def __init__(self) -> None:
        super().__init__()
        self.has_failed = threading.Event()

    def cancel(self) -> None:
        super().cancel()
        self.has_failed.wait(LONG_S)

    def receive(self, path: str, body: bytes) -> int:
        return 500 if self.is_done else super().receive(path, body)

    def answered(self) -> None:
        self.has_failed.set()


class PrintsLateResults(GoodRuntime):
    def cancel(self) -> None:
        super().cancel()
        self.print(self.results.get(timeout=LONG_S))

    def settle(self, text: str) -> None:
        self.results.put(text)


class ClosesOtherThread(GoodRuntime):
    def close(self) -> None:
        self.notify("/close_thread", {"thread_id": self.id})


class ClosesEarly(GoodRuntime):
    def invoke(self, endpoint: str, callback_url: str) -> None:
        super().invoke(endpoint, callback_url)
        self.close()
