"""The conformance kit for clients of OTC and OXP, in any dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolgate_conformance.checks import Check
from toolgate_conformance.clients import calls, challenges, credentials, failures, lists, results, retries
from toolgate_conformance.clients.registry import Entry
from toolgate_conformance.clients.subject import client_subject
from toolgate_conformance.rest import Form

__all__ = ["client_checks", "client_subject", "scenarios_of"]

THEMES = (lists, calls, results, failures, retries, credentials, challenges)


def client_checks(form: Form) -> list[Check]:
    """The checks of clients of a dialect, sorted by id."""
    return sorted((entry.check_for(form) for entry in _entries(form)), key=lambda each: each.id)


def scenarios_of(form: Form) -> Mapping[str, Sequence[str]]:
    """The scenarios that each check of a dialect needs, by the id of the check."""
    return {entry.id_for(form): entry.scenarios for entry in _entries(form)}


def _entries(form: Form) -> Iterator[Entry]:
    return (entry for theme in THEMES for entry in theme.check.entries if form.name in entry.forms)
