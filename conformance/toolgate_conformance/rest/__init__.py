"""The conformance kit for tool servers of OTC and OXP, in any dialect."""

from __future__ import annotations

from toolgate_conformance.calls import ToolCall
from toolgate_conformance.checks import Check
from toolgate_conformance.http import JSON
from toolgate_conformance.rest import (
    arguments,
    call_ids,
    credentials,
    definitions,
    health,
    listing,
    protocol_versions,
    refusals,
    requests,
    requirements,
    results,
    tool_ids,
)
from toolgate_conformance.rest.forms import FORMS, Form
from toolgate_conformance.rest.server import RestServer

__all__ = ["FORMS", "JSON", "Form", "RestServer", "ToolCall", "checks_for"]

THEMES = (
    health,
    listing,
    definitions,
    results,
    call_ids,
    tool_ids,
    arguments,
    requests,
    protocol_versions,
    refusals,
    credentials,
    requirements,
)


def checks_for(form: Form) -> list[Check]:
    """The checks of tool servers of a dialect, sorted by id."""
    entries = (entry for theme in THEMES for entry in theme.check.entries if form.name in entry.forms)
    return sorted((entry.check_for(form) for entry in entries), key=lambda each: each.id)
