"""The conformance kit for tool servers that speak RAP (callback invocation)."""

from __future__ import annotations

from gateway.conformance.checks import Check
from gateway.conformance.rap import (
    acknowledgements,
    credentials,
    delivery,
    invalid,
    messages,
    notices,
    people,
    toolset,
)
from gateway.conformance.rap.common import NOWHERE
from gateway.conformance.rap.invocation import Waits
from gateway.conformance.rap.subject import rap_subject

__all__ = ["NOWHERE", "Waits", "rap_checks", "rap_subject"]

THEMES = (toolset, acknowledgements, messages, invalid, delivery, notices, people, credentials)


def rap_checks() -> list[Check]:
    """Every check of RAP servers, sorted by id."""
    return sorted((each for theme in THEMES for each in theme.check.checks), key=lambda each: each.id)
