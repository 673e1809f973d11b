"""What a client of RCRT did in a scenario, and what the checks demand of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.clients.observation import Observation
from toolgate_conformance.clients.rcrt.breadcrumbs import StoredCrumb, is_request
from toolgate_conformance.clients.rcrt.scenarios import OTHER, OUTPUT, Event, RcrtScenario
from toolgate_conformance.clients.scripted import Reply, Request
from toolgate_conformance.servers.rcrt.messages import RESPONSE

SHOWN_EVENTS = 10  # in a report, the latest


class RcrtObservation(Observation, frozen=True, kw_only=True):
    """What a client did in a scenario."""

    scenario: RcrtScenario
    owner_id: str
    tokens: frozenset[str]  # that were issued to it
    crumbs: Sequence[StoredCrumb]  # by whomever
    sent: Sequence[Event]  # on its streams

    def messages(self) -> Sequence[str]:
        """What was refused of its requests, and the latest events."""
        pairs = zip(self.requests, self.replies, strict=True)
        refusals = [f"{request.method} {request.path}: {text}" for request, reply in pairs if (text := _refusal(reply))]
        events = [f"event {json.dumps(event, ensure_ascii=False)}" for event in self.sent[-SHOWN_EVENTS:]]
        return ["\n".join([*refusals, *events])] if refusals or events else []

    def without_secrets(self, sent: str) -> str:
        for token in self.tokens:
            sent = sent.replace(token, "***")  # some clients send it in the query
        return sent

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
    def stored(self) -> list[StoredCrumb]:
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

    def must_return(self) -> None:
        """Raises UnfitError unless it printed the output of the response."""
        self.must_print(OUTPUT)

    def must_return_only(self) -> None:
        """Raises UnfitError unless it printed the right output, and no other."""
        self.must(OTHER not in self.output, "Nothing of other breadcrumbs in the output.")
        self.must_return()

    def must_hear(self) -> None:
        """Raises UnfitError unless it returns what only its stream has; SkippedError if it opens none."""
        self.streams()
        self.must_return()

    def must_ask_once(self) -> None:
        """Raises UnfitError unless it stored exactly one request."""
        self.asked()
        self.must(len(self.stored) == 1, f"One stored request, not {len(self.stored)}.")


def _refusal(reply: Reply) -> str:
    """What an answer that is no success says; empty for the others."""
    if reply.is_reset:
        return reply.text
    return f"{reply.status} {reply.body.decode()}" if reply.status >= 400 else ""
