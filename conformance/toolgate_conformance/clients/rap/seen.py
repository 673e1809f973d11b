"""What a RAP runtime did in a scenario, and what the checks demand of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolgate_conformance.checks import Exchange, UnfitError, shown
from toolgate_conformance.clients.rap.scenarios import Scenario
from toolgate_conformance.clients.runs import LIMIT_S
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


class Seen(Struct, frozen=True):
    """What a runtime did in a scenario. `exit_code` is None if it was killed at the time limit.

    `ended_s` is on the clock of the requests.
    """

    scenario: Scenario
    exit_code: int | None
    stdout: str
    stderr: str
    requests: Sequence[Request]
    deliveries: Sequence[Delivery]
    ended_s: float

    @property
    def exchange(self) -> Exchange:
        """For a report: its requests, and what it was sent and printed."""
        sent = "\n\n".join(request.text for request in self.requests) or "(nothing)"
        end = f"(killed after {LIMIT_S:g} s)" if self.exit_code is None else f"(exit code {self.exit_code})"
        output = [f"{name}: {it.strip()}" for name, it in (("stdout", self.stdout), ("stderr", self.stderr)) if it]
        return Exchange(shown(sent), shown("\n".join([end, *output, *(each.text for each in self.deliveries)])))

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with the whole exchange unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)

    @property
    def output(self) -> str:
        return f"{self.stdout}\n{self.stderr}"

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
        self.must(self.exit_code == 0, "Exit code 0 after a call that has a result.")
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
