"""Which operations of a document an operator has chosen to become tools, and what is said about each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from gateway.openapi.operations import Operation
from gateway.openapi.terms import Match, Terms, ToolTerms
from gateway.suggestions import suggestion

ALL = "ALL"  # methods, but for those that double a GET of the same path
DOUBLES = frozenset({"HEAD", "OPTIONS"})
NEVER = frozenset({"TRACE", "CONNECT"})
MAX_SUGGESTED = 5000  # words to look for a similar one in: 10 ms
NOTHING_SAID = ToolTerms()


def chosen(operation: Operation, terms: Terms) -> str | None:
    """Why an operation is left out, in a sentence for the operator; None if it becomes a tool."""
    method = operation.method.upper()
    if method in NEVER:
        return f"{method} never becomes a tool."
    if not operation.is_offered:
        return "The document has 'x-mcp: false' for it."
    if method not in terms.methods and (ALL not in terms.methods or method in DOUBLES):
        return f"operations.methods leaves out {method}."
    if terms.include and not any(matches(operation, match) for match in terms.include):
        return "operations.include does not name it."
    for number, match in enumerate(terms.exclude):
        if matches(operation, match):
            return f"operations.exclude[{number}] names it."
    if operation.is_deprecated and not terms.include_deprecated:
        return "It is deprecated."
    return None


def matches(operation: Operation, match: Match) -> bool:
    """Whether all that a match says holds of an operation."""
    return (
        (not match.method or match.method == operation.method.upper())
        and (match.deprecated is None or match.deprecated is operation.is_deprecated)
        and (not match.tag or match.tag in operation.tags)
        and (not match.operation or _fits(operation.id, match.operation))
        and (not match.path or _fits(operation.template, match.path))
    )


def _fits(text: str, glob: str) -> bool:
    """Whether a text fits a pattern; `*` and `?` stand for anything, also for slashes, and all else for itself."""
    return bool(text) and fnmatchcase(text, glob.replace("[", "[[]"))


def tool_terms(operation: Operation, terms: Terms) -> ToolTerms:
    """What is said about an operation; by its place if both that and its operationId are named."""
    found = terms.tools.get(operation.place)
    if found is None and operation.id:
        found = terms.tools.get(operation.id)
    return found or NOTHING_SAID


def unknown_tools(operations: Iterable[Operation], terms: Terms) -> Iterator[str]:
    """Finds what is said about operations that the document does not have."""
    if not terms.tools:
        return
    known = {key for operation in operations for key in (operation.place, operation.id) if key}
    for key in terms.tools:
        if key not in known:
            hint = suggestion(key, known) if len(known) <= MAX_SUGGESTED else ""
            yield f"tools names {key!r}, which is no operation of the document{hint}"


def idle_tools(operations: Sequence[Operation], terms: Terms) -> Iterator[str]:
    """Finds what is said about operations to no avail."""
    by_id = Counter(operation.id for operation in operations if operation.id in terms.tools)
    for key, count in by_id.items():
        if count > 1 and terms.tools[key].name:
            yield f"tools gives {key!r} a name, but {count} operations have this operationId; use method and path"
    for operation in operations:
        key = operation.place if operation.place in terms.tools else operation.id
        if key in terms.tools and (reason := chosen(operation, terms)):
            yield f"tools names {key!r}, which is left out: {reason}"
