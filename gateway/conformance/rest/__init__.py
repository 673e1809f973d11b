"""The conformance kit for tool servers of OTC and OXP, in any dialect."""

from __future__ import annotations

from gateway.conformance.checks import Check
from gateway.conformance.rest import inputs, listing, refusals, requirements, results, tool_ids, versions
from gateway.conformance.rest.server import FORMS, JSON, Form, RestServer, ToolCall

__all__ = ["FORMS", "JSON", "Form", "RestServer", "ToolCall", "rest_checks"]

THEMES = (listing, results, tool_ids, inputs, versions, refusals, requirements)


def rest_checks(form: Form) -> list[Check]:
    """The checks of tool servers of a dialect, sorted by id."""
    entries = [entry for theme in THEMES for entry in theme.check.entries if form.name in entry.forms]
    return sorted((entry.check_for(form) for entry in entries), key=lambda each: each.id)
