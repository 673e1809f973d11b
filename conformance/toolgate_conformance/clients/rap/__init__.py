"""The conformance kit for RAP runtimes, the clients of that protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolgate_conformance.checks import Check
from toolgate_conformance.clients.rap import callbacks, invocations, notices, subscriptions
from toolgate_conformance.clients.rap.subject import rap_runtime

__all__ = ["rap_runtime", "runtime_checks", "scenarios_of_runtimes"]

THEMES = (invocations, callbacks, subscriptions, notices)


def runtime_checks() -> list[Check]:
    """Every check of RAP runtimes, sorted by id."""
    return sorted((each for theme in THEMES for each in theme.check.checks), key=lambda each: each.id)


def scenarios_of_runtimes() -> Mapping[str, Sequence[str]]:
    """The scenarios that each check needs, by its id."""
    return {id_: names for theme in THEMES for id_, names in theme.check.scenarios.items()}
