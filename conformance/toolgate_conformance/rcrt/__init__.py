"""The conformance kit for servers that speak RCRT, together with their tools-runner."""

from __future__ import annotations

from toolgate_conformance.checks import Check
from toolgate_conformance.rcrt import (
    breadcrumbs,
    changes,
    discovery,
    lists,
    requests,
    responses,
    stream,
    tokens,
)
from toolgate_conformance.rcrt.server import rcrt_subject
from toolgate_conformance.rcrt.store import Limits

__all__ = ["Limits", "rcrt_checks", "rcrt_subject"]

THEMES = (tokens, breadcrumbs, lists, changes, stream, discovery, requests, responses)


def rcrt_checks() -> list[Check]:
    """Every check of RCRT servers, sorted by id."""
    return sorted((each for theme in THEMES for each in theme.check.checks), key=lambda each: each.id)
