"""What a program did in a scenario, and what the checks of every protocol demand of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from toolgate_conformance.checks import Exchange, UnfitError, shown
from toolgate_conformance.clients.program import LIMIT_S
from toolgate_conformance.clients.scripted import Reply, Request


class Observation(Struct, frozen=True, kw_only=True):
    """What a program did in a scenario."""

    exit_code: int | None  # None: it was killed at the time limit
    stdout: str
    stderr: str
    requests: Sequence[Request]
    replies: Sequence[Reply]  # to each of them

    @property
    def exchange(self) -> Exchange:
        """For a report: its requests, and what it was sent and printed."""
        sent = "\n\n".join(request.text for request in self.requests) or "(nothing)"
        end = f"(killed after {LIMIT_S:g} s)" if self.exit_code is None else f"(exit code {self.exit_code})"
        streams = (("stdout", self.stdout), ("stderr", self.stderr))
        output = [f"{name}: {text.strip()}" for name, text in streams if text]
        came = "\n\n".join(["\n".join([end, *output]), *self.messages()])
        return Exchange(shown(self.without_secrets(sent)), shown(came))

    def messages(self) -> Sequence[str]:
        """What it was sent, for a report."""
        return [reply.text for reply in self.replies]

    def without_secrets(self, sent: str) -> str:
        """What it has sent, for a report, without secrets in unusual places."""
        return sent

    def must(self, holds: bool, expected: str) -> None:
        """Raises UnfitError with the whole exchange unless something holds."""
        if not holds:
            raise UnfitError(expected, self.exchange)

    @property
    def output(self) -> str:
        return f"{self.stdout}\n{self.stderr}"

    def value(self) -> Any:
        """The JSON that it printed: its whole output, or the last line of it. Raises UnfitError."""
        text = self.stdout.strip()
        for part in (text, text.rpartition("\n")[2]):
            with suppress(ValueError, RecursionError):
                return json.loads(part)
        raise UnfitError("The value of the result as JSON on the standard output.", self.exchange)

    def must_succeed(self) -> None:
        """Raises UnfitError if it exited with an error."""
        self.must(self.exit_code == 0, "Exit code 0 after a call that succeeds.")

    def must_fail(self, after: str) -> None:
        """Raises UnfitError if it did not end, or exited with 0."""
        self.must(self.exit_code is not None, f"A command that ends after {after}.")
        self.must(self.exit_code != 0, f"A non-zero exit code after {after}.")

    def must_print(self, value: Any) -> None:
        """Raises UnfitError unless it succeeded and printed a value."""
        self.must_succeed()
        self.must(are_same(self.value(), value), f"The value {json.dumps(value)} on the standard output.")


def are_same(one: Any, other: Any) -> bool:
    """Whether two JSON documents are the same; unlike with `==`, true is not 1, though 3.0 is 3."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(are_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
