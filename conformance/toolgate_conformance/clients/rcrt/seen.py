"""What a client of RCRT did in a scenario, and what the checks demand of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from toolgate_conformance.checks import Exchange, SkippedError, UnfitError, shown
from toolgate_conformance.clients.rcrt.breadcrumbs import Crumb, is_request
from toolgate_conformance.clients.rcrt.scenarios import OTHER, OUTPUT, Event, Scenario
from toolgate_conformance.clients.runs import LIMIT_S
from toolgate_conformance.clients.scripted import Reply, Request
from toolgate_conformance.clients.seen import are_same
from toolgate_conformance.rcrt.messages import RESPONSE

SHOWN_EVENTS = 10  # in a report, the latest


class Seen(Struct, frozen=True):
    """What a client did in a scenario. `exit_code` is None if it was killed at the time limit.

    `crumbs` are the breadcrumbs that were stored, by whomever; `sent` are the events on its streams.
    """

    scenario: Scenario
    owner_id: str
    exit_code: int | None
    stdout: str
    stderr: str
    requests: Sequence[Request]
    replies: Sequence[Reply]
    tokens: frozenset[str]
    crumbs: Sequence[Crumb]
    sent: Sequence[Event]

    @property
    def exchange(self) -> Exchange:
        """For a report: its requests, what was refused of them, and what it was sent and printed."""
        sent = "\n\n".join(request.text for request in self.requests) or "(nothing)"
        for token in self.tokens:
            sent = sent.replace(token, "***")  # some clients send it in the query
        end = f"(killed after {LIMIT_S:g} s)" if self.exit_code is None else f"(exit code {self.exit_code})"
        output = [f"{name}: {it.strip()}" for name, it in (("stdout", self.stdout), ("stderr", self.stderr)) if it]
        pairs = zip(self.requests, self.replies, strict=True)
        refusals = [f"{request.method} {request.path}: {_said(reply)}" for request, reply in pairs if _said(reply)]
        events = [f"event {json.dumps(event, ensure_ascii=False)}" for event in self.sent[-SHOWN_EVENTS:]]
        return Exchange(shown(sent), shown("\n".join([end, *output, *refusals, *events])))

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with the whole exchange unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)

    @property
    def output(self) -> str:
        return f"{self.stdout}\n{self.stderr}"

    def sent_to(self, method: str, path: str) -> list[tuple[Request, Reply]]:
        """Requests at the URL that it was given, with their answers."""
        whole = self.scenario.path.rstrip("/") + path
        pairs = zip(self.requests, self.replies, strict=True)
        return [(request, reply) for request, reply in pairs if (request.method, request.path) == (method, whole)]

    @property
    def creations(self) -> list[tuple[Request, Reply]]:
        """Requests to store a request for a tool, with their answers."""
        return [it for it in self.sent_to("POST", "/breadcrumbs") if is_request(it[0].document)]

    @property
    def stored(self) -> list[Crumb]:
        """Its requests for a tool that were stored."""
        return [crumb for crumb in self.crumbs if crumb.is_request]

    @property
    def responded_at_s(self) -> float:
        """When the first response was stored; never, if none was."""
        return next((it.at_s for it in self.crumbs if it.draft.get("schema_name") == RESPONSE), float("inf"))

    def asked(self) -> Mapping[str, Any]:
        """The breadcrumb of its first request for a tool. Raises UnfitError without one."""
        self.must(bool(self.creations), "A request for the tool: a POST of a breadcrumb to /breadcrumbs.")
        draft: Mapping[str, Any] = self.creations[0][0].document
        return draft

    def context(self) -> Mapping[str, Any]:
        """The context of its first request for a tool. Raises UnfitError without one."""
        found = self.asked().get("context")
        self.must(isinstance(found, dict), "An object in `context`.")
        return found if isinstance(found, dict) else {}

    def streams(self) -> list[tuple[Request, Reply]]:
        """Requests for the event stream, with their answers. Raises SkippedError without any."""
        self.asked()
        if not (found := self.sent_to("GET", "/events/stream")):
            raise SkippedError("The client opens no event stream.")
        return found

    def value(self) -> Any:
        """The JSON that it printed: its whole output, or the last line of it. Raises UnfitError."""
        text = self.stdout.strip()
        for each in (text, text.rpartition("\n")[2]):
            with suppress(ValueError, RecursionError):
                return json.loads(each)
        raise UnfitError("The output of the response as JSON on the standard output.", self.exchange)

    def must_return(self, output: Any = OUTPUT) -> None:
        """Raises UnfitError unless it printed the output of a response."""
        self.must(self.exit_code == 0, "Exit code 0 after a call that has an output.")
        self.must(are_same(self.value(), output), f"The output {json.dumps(output)} on the standard output.")

    def must_return_only(self) -> None:
        """Raises UnfitError unless it printed the right output, and no other."""
        self.must(OTHER not in self.output, "Nothing of other breadcrumbs in the output.")
        self.must_return()

    def must_hear(self) -> None:
        """Raises UnfitError unless it returns what only its stream has; SkippedError if it opens none."""
        self.streams()
        self.must_return()

    def must_fail(self) -> None:
        """Raises UnfitError unless it ends with an error."""
        self.must(self.exit_code is not None, "A command that ends.")
        self.must(self.exit_code != 0, "A non-zero exit code.")

    def must_ask_once(self) -> None:
        """Raises UnfitError unless it stored exactly one request."""
        self.asked()
        self.must(len(self.stored) == 1, f"One stored request, not {len(self.stored)}.")


def _said(reply: Reply) -> str:
    """What an answer that is no success says; empty for the others."""
    if reply.is_reset:
        return reply.text
    return f"{reply.status} {reply.body.decode()}" if reply.status >= 400 else ""
