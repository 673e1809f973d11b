"""The conformance kit for clients of RCRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolgate_conformance.checks import Check
from toolgate_conformance.clients.rcrt import creation, requests, responses, stream, tokens
from toolgate_conformance.clients.rcrt.subject import rcrt_client

__all__ = ["rcrt_client", "rcrt_client_checks", "scenarios_of_rcrt"]

THEMES = (tokens, requests, creation, stream, responses)


def rcrt_client_checks() -> list[Check]:
    """Every check of RCRT clients, sorted by id."""
    return sorted((each for theme in THEMES for each in theme.check.checks), key=lambda each: each.id)


def scenarios_of_rcrt() -> Mapping[str, Sequence[str]]:
    """The scenarios that each check needs, by its id."""
    return {id_: scenarios for theme in THEMES for id_, scenarios in theme.check.scenarios.items()}
