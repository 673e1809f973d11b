"""The good client of RCRT with one mistake: `python -m conformance.tests.bad_rcrt_client NAME`."""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
import uuid
from collections.abc import Mapping

from conformance.tests.good_rcrt_client import REQUEST, RESPONSE, FailedError, GoodClient, Json, main


class Impatient(GoodClient):
    """Gets no response, because of a mistake, and gives up soon."""

    patience_s = 1.0


class NamesOtherOwner(GoodClient):
    def grant(self) -> dict[str, Json]:
        return super().grant() | {"owner_id": str(uuid.uuid4())}


class AsksToRead(GoodClient):
    def grant(self) -> dict[str, Json]:
        return super().grant() | {"roles": ["subscriber"]}


class SendsNoToken(GoodClient):
    open_s = 0.2

    def credentials(self, path: str) -> dict[str, str]:
        return {"X-API-Key": self.token}


class StreamsWithoutToken(GoodClient):
    open_s = 0.2

    def credentials(self, path: str) -> dict[str, str]:
        return {} if path == "/events/stream" else super().credentials(path)


class KeepsToken(GoodClient):
    def send(self, method: str, path: str, document: Json = None, **headers: str) -> tuple[int, bytes]:
        return self.send_once(method, path, document, **headers)


class NamesOtherSchema(Impatient):
    def draft(self) -> dict[str, Json]:
        return super().draft() | {"schema_name": "tool.request"}


class HasNoTitle(GoodClient):
    def draft(self) -> dict[str, Json]:
        return {name: value for name, value in super().draft().items() if name != "title"}


class SendsText(GoodClient):
    def send(self, method: str, path: str, document: Json = None, **headers: str) -> tuple[int, bytes]:
        return super().send(method, path, document, **headers, Content_Type="text/plain")


class NamesOtherWorkspace(Impatient):
    def draft(self) -> dict[str, Json]:
        return super().draft() | {"tags": ["tool:request", "workspace:kit"]}


class ChecksHealth(Impatient):
    def draft(self) -> dict[str, Json]:
        return super().draft() | {"tags": ["tool:request", "workspace:tools", "health:check"]}


class ChangesName(Impatient):
    def context(self) -> dict[str, Json]:
        return super().context() | {"tool": self.tool.replace("-", "_")}


class AddsInput(GoodClient):
    def context(self) -> dict[str, Json]:
        return super().context() | {"input": self.input | {"session": "s-1"}}


class SendsInputAsText(GoodClient):
    def context(self) -> dict[str, Json]:
        return super().context() | {"input": json.dumps(self.input)}


class HasNumbersForIds(GoodClient):
    def __init__(self) -> None:
        super().__init__()
        self.id: Json = random.getrandbits(52)


class HasOneId(GoodClient):
    def __init__(self) -> None:
        super().__init__()
        self.id = "call-1"


class HasTimesForIds(GoodClient):
    def __init__(self) -> None:
        super().__init__()
        self.id = f"{self.tool}-{time.time_ns()}"


class TagsAsResponse(GoodClient):
    def draft(self) -> dict[str, Json]:
        draft = super().draft()
        return draft | {"tags": [*draft["tags"], f"request:{self.id}"]}


class LivesForever(GoodClient):
    def draft(self) -> dict[str, Json]:
        return super().draft() | {"ttl": None}


class NamesNoTimeZone(GoodClient):
    def draft(self) -> dict[str, Json]:
        draft = super().draft()
        return draft | {"ttl": draft["ttl"].removesuffix("Z")}


class ChangesRequest(GoodClient):
    method = "PATCH"

    def request(self) -> None:
        super().request()
        (crumb,) = self.list(REQUEST, self.tag)
        self.send(self.method, f"/breadcrumbs/{crumb['id']}", {"title": "pending"})


class DeletesRequest(ChangesRequest):
    method = "DELETE"


class KeepsTheSlash(GoodClient):
    def base(self) -> str:
        return self.url


class DoesNotLook(GoodClient):
    def is_stored(self, status: int) -> bool:
        return status == 409 and super().is_stored(status)


class GivesUp(GoodClient):
    def is_stored(self, status: int) -> bool:
        raise FailedError("There was no answer.")


class TakesAnotherKey(GoodClient):
    def is_stored(self, status: int) -> bool:
        return status != 409 and super().is_stored(status)


class WaitsForNothing(GoodClient):
    patience_s = 60.0

    def is_stored(self, status: int) -> bool:
        return True


class ExitsWithZero(GoodClient):
    def run(self) -> int:
        super().run()
        return 0


class RepeatsRefusals(GoodClient):
    def refused(self, status: int, body: bytes) -> None:
        pass


class RequestsAgain(GoodClient):
    """Does not wait for longer than half a second."""

    def request(self) -> None:
        super().request()
        time.sleep(0.5)
        if not self.is_done:
            self.send("POST", "/breadcrumbs", self.draft(), idempotency_key=f"{self.id}-again")


class NeverPolls(Impatient):
    def poll(self) -> None:
        pass


class RegistersLater(NeverPolls):
    is_known = False

    def request(self) -> None:
        super().request()
        self.is_known = True

    def is_ours(self, context: Mapping[str, Json], crumb: Mapping[str, Json]) -> bool:
        return self.is_known and super().is_ours(context, crumb)


class NeedsAllMembers(Impatient):
    def take_event(self, event: dict[str, Json]) -> None:
        if event["type"] != "ping":
            super().take_event({name: event[name] for name in ("type", "schema_name", "tags", "context")})


class DecodesPieces(GoodClient):
    def read_lines(self, answer: http.client.HTTPResponse) -> None:
        text = ""
        while piece := answer.read1():
            *lines, text = (text + piece.decode("utf-8", "replace")).split("\n")
            for line in lines:
                self.take_line(line)


class NeedsSpace(Impatient):
    def take_line(self, line: str) -> None:
        if line.startswith("data: "):
            super().take_line(line)


class NeedsType(Impatient):
    def take_event(self, event: dict[str, Json]) -> None:
        if "type" in event:
            super().take_event(event)


class OpensTwoStreams(GoodClient):
    def start(self) -> None:
        super().start()
        threading.Thread(target=self.listen, daemon=True).start()


class WaitsForCreated(NeverPolls):
    def take_event(self, event: dict[str, Json]) -> None:
        if event.get("type") == "breadcrumb.created":
            super().take_event(event)


class PrintsContext(GoodClient):
    def print(self, context: Mapping[str, Json]) -> None:
        print(json.dumps(context))


class TakesAnySchema(GoodClient):
    def take_crumb(self, crumb: Mapping[str, Json]) -> None:
        super().take_crumb({**crumb, "schema_name": RESPONSE})


class TakesAgents(GoodClient):
    def take_crumb(self, crumb: Mapping[str, Json]) -> None:
        is_agent = crumb.get("schema_name") == "agent.response.v1"
        super().take_crumb({**crumb, "schema_name": RESPONSE} if is_agent else crumb)


class TakesAnyResponse(GoodClient):
    def is_ours(self, context: Mapping[str, Json], crumb: Mapping[str, Json]) -> bool:
        return True


class PrintsAll(GoodClient):
    grace_s = 0.3

    def settle(self, context: Json) -> None:
        self.contexts.put(context)


class HidesFailures(GoodClient):
    def failed(self, error: str) -> None:
        super().failed("The tool failed.")


class GoesByTags(GoodClient):
    def is_ours(self, context: Mapping[str, Json], crumb: Mapping[str, Json]) -> bool:
        return f"request:{self.id}" in crumb.get("tags", [])


class NeedsObject(GoodClient):
    def print(self, context: Mapping[str, Json]) -> None:
        if not isinstance(context.get("output"), dict):
            raise FailedError("The output is not valid.")
        super().print(context)


class KnowsOneForm(Impatient):
    def is_ours(self, context: Mapping[str, Json], crumb: Mapping[str, Json]) -> bool:
        return context.get("request_id") == self.id


if __name__ == "__main__":
    client: type[GoodClient] = globals()[sys.argv[1]]
    main(client())
