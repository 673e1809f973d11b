"""What a client did in a scenario, and what the checks demand of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from toolgate_conformance.checks import Exchange, SkippedError, UnfitError, shown
from toolgate_conformance.clients.runs import LIMIT_S
from toolgate_conformance.clients.scenarios import Scenario
from toolgate_conformance.clients.scripted import Reply, Request
from toolgate_conformance.clients.stage import request_in
from toolgate_conformance.rest import Form

CLOCK_S = 0.02  # by which a client's clock may run ahead of ours


class Seen(Struct, frozen=True):
    """What a client did in a scenario.

    `exit_code` is None if the client was killed at the time limit. `takes_call_id`: the command has {call_id} among its
    arguments. `secrets` are the authorizations and secrets, by id, that it was given in addition to the credential.
    """

    form: Form
    scenario: Scenario
    url: str
    token: str
    call_id: str
    takes_call_id: bool
    secrets: Mapping[str, str]
    exit_code: int | None
    stdout: str
    stderr: str
    requests: Sequence[Request]
    replies: Sequence[Reply]

    @property
    def exchange(self) -> Exchange:
        """For a report: everything that it sent, and the answers."""
        sent = "\n\n".join(request.text for request in self.requests) or "(nothing)"
        end = f"(killed after {LIMIT_S:g} s)" if self.exit_code is None else f"(exit code {self.exit_code})"
        output = [
            f"{name}: {text.strip()}" for name, text in (("stdout", self.stdout), ("stderr", self.stderr)) if text
        ]
        answers = [reply.text for reply in self.replies]
        return Exchange(shown(sent), shown("\n\n".join(["\n".join([end, *output]), *answers])))

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with the whole exchange unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)

    @property
    def lists(self) -> list[Request]:
        """Requests for the list, at the URL that it was given."""
        return [it for it in self.requests if not it.is_elsewhere and it.method == "GET" and _ends(it, "/tools")]

    @property
    def calls(self) -> list[Request]:
        """Calls, at the URL that it was given: every POST."""
        return [it for it in self.requests if not it.is_elsewhere and it.method == "POST"]

    @property
    def elsewhere(self) -> list[Request]:
        """Requests to the other origin."""
        return [it for it in self.requests if it.is_elsewhere]

    def called(self) -> Mapping[str, Any]:
        """The request object of its first call. Raises UnfitError without one."""
        self.must(bool(self.calls), "A call of the tool.")
        found = request_in(self.form, self.calls[0])
        if found is None:
            raise UnfitError("A call in the format of the protocol.", self.exchange)
        return found

    @property
    def output(self) -> str:
        return f"{self.stdout}\n{self.stderr}"

    @property
    def has_succeeded(self) -> bool:
        return self.exit_code == 0

    def value(self) -> Any:
        """The JSON that it printed: its whole output, or the last line of it. Raises UnfitError."""
        text = self.stdout.strip()
        for each in (text, text.rpartition("\n")[2]):
            with suppress(ValueError, RecursionError):
                return json.loads(each)
        raise UnfitError("The value of the result as JSON on the standard output.", self.exchange)

    # What several checks demand.

    def must_succeed(self) -> None:
        """Raises UnfitError if it exited with an error."""
        self.must(self.has_succeeded, "Exit code 0 after a call that succeeds.")

    def must_fail(self, after: str) -> None:
        """Raises UnfitError if it did not end, or exited with 0."""
        self.must(self.exit_code is not None, f"A command that ends after {after}.")
        self.must(not self.has_succeeded, f"A non-zero exit code after {after}.")

    def must_call_once(self) -> None:
        """Raises UnfitError unless it sent exactly one call."""
        self.called()
        self.must(len(self.calls) == 1, f"One call, not {len(self.calls)}.")

    def must_return(self, expected: Any) -> None:
        """Raises UnfitError unless it printed a value."""
        self.must_succeed()
        self.must(are_same(self.value(), expected), f"The value {json.dumps(expected)} on the standard output.")

    def must_pause(self, least_s: float) -> None:
        """Raises UnfitError if the second call came too early after the first, SkippedError if there was none."""
        if len(self.calls) < 2:
            raise SkippedError("The client does not retry the call.")
        pause_s = self.calls[1].at_s - self.calls[0].at_s
        self.must(pause_s >= least_s - CLOCK_S, f"A pause of at least {least_s:g} s, not {pause_s:.3f} s.")

    def must_not_print(self, secrets: Mapping[str, str]) -> None:
        """Raises UnfitError if the output contains one of some secrets."""
        for id_, secret in secrets.items():
            self.must(secret not in self.output, f"No output with the value of {id_}.")

    def must_not_send(self, secrets: Mapping[str, str]) -> None:
        """Raises UnfitError if any request contains one of some secrets."""
        for id_, secret in secrets.items():
            self.must(not any(it.has(secret) for it in self.requests), f"No request with the value of {id_}.")


def are_same(one: Any, other: Any) -> bool:
    """Whether two JSON documents are the same; unlike with `==`, true is not 1, though 3.0 is 3."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(are_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _ends(request: Request, path: str) -> bool:
    return request.path.rstrip("/").endswith(path)
