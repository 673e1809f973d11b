"""What a RAP runtime did in a scenario, and what the checks demand of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolgate_conformance.clients.observation import Observation
from toolgate_conformance.clients.rap.scenarios import RapScenario
from toolgate_conformance.clients.scripted import Request

TOOLSET, INVOKE, CHOICE = "/.well-known/rap-toolset", "/kit/invoke", "/choice"
CANCEL, CLOSE = "/cancel_tool_call", "/close_thread"


class Delivery(Struct, frozen=True):
    """A callback that was posted; `status` None: it got no answer in time."""

    name: str
    message: Any
    status: int | None

    @property
    def text(self) -> str:
        answer = "no answer" if self.status is None else f"answered with {self.status}"
        return f"callback {json.dumps(self.message, ensure_ascii=False)}: {answer}"


class RapObservation(Observation, frozen=True, kw_only=True):
    """What a runtime did in a scenario."""

    scenario: RapScenario
    deliveries: Sequence[Delivery]
    ended_s: float  # on the clock of the requests

    def messages(self) -> Sequence[str]:
        return [delivery.text for delivery in self.deliveries]

    @property
    def invocations(self) -> list[Request]:
        """Requests that invoke a tool."""
        return [it for it in self.requests if it.method == "POST" and it.path.endswith(INVOKE)]

    @property
    def cancellations(self) -> list[Request]:
        """Requests that cancel a call, also below a wrong URL."""
        return [it for it in self.requests if it.path.endswith(CANCEL)]

    @property
    def closures(self) -> list[Request]:
        """Requests that close a thread, also below a wrong URL."""
        return [it for it in self.requests if it.path.endswith(CLOSE)]

    def invoked(self) -> Mapping[str, Any]:
        """The members of the first invocation. Raises UnfitError without one."""
        self.must(bool(self.invocations), "An invocation of the tool.")
        found = self.invocations[0].document
        self.must(isinstance(found, dict), "An invocation that is a JSON object.")
        members: Mapping[str, Any] = found
        return members

    def statuses(self, name: str) -> list[int | None]:
        """How the callbacks of a name were answered."""
        return [each.status for each in self.deliveries if each.name == name]

    def must_return(self, text: str) -> None:
        """Raises UnfitError unless it printed a result."""
        self.must_succeed()
        self.must(text in self.stdout, f"The text {text!r} on the standard output.")

    def must_post_json(self, request: Request) -> Mapping[str, Any]:
        """The members of a JSON object that was posted. Raises UnfitError."""
        self.must(request.method == "POST", f"The method POST, not {request.method}.")
        named = request.content_type
        self.must(named == "application/json", f"The content type application/json, not {named!r}.")
        found = request.document
        self.must(isinstance(found, dict), "A JSON object.")
        members: Mapping[str, Any] = found
        return members

    def must_invoke_once(self) -> None:
        """Raises UnfitError unless it sent exactly one invocation."""
        self.invoked()
        self.must(len(self.invocations) == 1, f"One invocation, not {len(self.invocations)}.")
