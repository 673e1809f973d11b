"""What a client of OTC or OXP did in a scenario, and what the checks demand of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_conformance.checks import SkippedError, UnfitError
from toolgate_conformance.clients.observation import Observation
from toolgate_conformance.clients.rest.scenarios import RestScenario
from toolgate_conformance.clients.rest.stage import request_in
from toolgate_conformance.clients.scripted import Request
from toolgate_conformance.servers.rest.forms import Form

CLOCK_S = 0.02  # by which a client's clock may run ahead of ours


class RestObservation(Observation, frozen=True, kw_only=True):
    """What a client did in a scenario."""

    form: Form
    scenario: RestScenario
    token: str
    call_id: str
    takes_call_id: bool  # whether the command has {call_id} among its arguments
    secrets: Mapping[str, str]  # the authorizations and secrets that it was given besides the credential, by id

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

    # What several checks demand.

    def must_call_once(self) -> None:
        """Raises UnfitError unless it sent exactly one call."""
        self.called()
        self.must(len(self.calls) == 1, f"One call, not {len(self.calls)}.")

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


def _ends(request: Request, path: str) -> bool:
    return request.path.rstrip("/").endswith(path)
