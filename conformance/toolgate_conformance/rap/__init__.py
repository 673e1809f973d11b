"""The conformance kit for tool servers that speak RAP (callback invocation)."""

from __future__ import annotations

from toolgate_conformance.checks import Check
from toolgate_conformance.rap import (
    acknowledgements,
    credentials,
    delivery,
    invalid,
    messages,
    notices,
    people,
    toolset,
)
from toolgate_conformance.rap.common import NOWHERE
from toolgate_conformance.rap.invocation import Waits
from toolgate_conformance.rap.subject import rap_subject

__all__ = ["NOWHERE", "Waits", "rap_checks", "rap_subject"]

THEMES = (toolset, acknowledgements, messages, invalid, delivery, notices, people, credentials)


def rap_checks() -> list[Check]:
    """Every check of RAP servers, sorted by id."""
    return sorted((each for theme in THEMES for each in theme.check.checks), key=lambda each: each.id)
