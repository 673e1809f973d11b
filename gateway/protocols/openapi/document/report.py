"""What became of each operation of a document, for `toolgate check --live`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET

from gateway.core.model import Json, JsonObject
from gateway.core.tool_names import word
from gateway.protocols.common.listing import Group, Report
from gateway.protocols.openapi.document.curation import Terms, idle_tools, tool_terms, unknown_tools, version_of
from gateway.protocols.openapi.document.document import Document
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.plan import OperationError, OperationTool
from gateway.protocols.openapi.document.security import access_of

MAX_TAGS = 60  # that are shown; those of most operations
MAX_SCHEMES = 20
# Of an operation in a document that cannot be used as a whole.
NO_LIST = "It is chosen, but the configuration does not fit the document, so no operation is published."
MAX_CHOICES = 5000  # lines
MAX_CHOSEN = 300  # characters of an operationId or a path in such a line
MAX_SHOWN = 80  # characters of a name or URL of the document
URLS = ("authorizationUrl", "tokenUrl", "deviceAuthorizationUrl")  # of an OAuth flow


class OperationOutcome(NamedTuple):
    """What became of an operation."""

    operation: Operation
    tool: OperationTool | None = None
    reason: str = ""  # why it is no tool
    notes: Sequence[str] = ()  # for the operator

    @property
    def is_chosen(self) -> bool:
        """Whether it becomes a tool, or would in a document that can be used."""
        return self.tool is not None or self.reason == NO_LIST


def report_of(
    document: Document, outcomes: Sequence[OperationOutcome], terms: Terms, *, rejected: int = 0, pin: str = ""
) -> Report:
    """The report on a document; its `rejected` operations are told elsewhere, whether or not they have outcomes.

    `pin` is the digest that holds a configuration to this document.
    """
    tools = sum(outcome.tool is not None for outcome in outcomes)
    left_out = sum(bool(outcome.reason) for outcome in outcomes)
    facts = [
        ("document", f"{_shown(document.title) or 'without a title'} {_shown(document.version)}".rstrip()),
        (
            "operations",
            f"{tools + left_out + rejected}, of them {tools} published, {left_out} left out, {rejected} that cannot be "
            "tools",
        ),
        ("tags", _tags(outcomes)),
        ("security", _security(document, terms)),
        ("ignored", _count_ignored(document.root)),
        ("pin", pin),
    ]
    operations = [outcome.operation for outcome in outcomes]
    texts = [*document.warnings, *unknown_tools(operations, terms), *idle_tools(operations, terms)]
    if not terms.version:
        texts.append(version_of(document.version)[1])
    notes = [Group(text=text) for text in texts if text]
    notes += _grouped((note, _named(outcome.operation)) for outcome in outcomes for note in outcome.notes)
    notes += _grouped(_values_models_must_give(outcomes))
    notes += _grouped(_named_by_place(operations, terms))
    return Report(
        facts=tuple((name, text) for name, text in facts if text),
        left_out=tuple(_grouped((outcome.reason, _named(outcome.operation)) for outcome in outcomes if outcome.reason)),
        notes=tuple(notes),
        choices=tuple(map(_choice, outcomes[:MAX_CHOICES])),
    )


def _named(operation: Operation) -> str:
    return _shown(operation.id or operation.place)


def _shown(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _grouped(pairs: Iterable[tuple[str, str]]) -> list[Group]:
    """What is said of several at once, by its text; of most first."""
    groups = defaultdict[str, list[str]](list)
    for text, name in pairs:
        groups[text].append(name)
    return [Group(text=text, ids=tuple(ids)) for text, ids in sorted(groups.items(), key=lambda group: -len(group[1]))]


def _tags(outcomes: Sequence[OperationOutcome]) -> str:
    """Each tag with the number of its operations that are chosen, and of all."""
    total, tools = Counter[str](), Counter[str]()
    for outcome in outcomes:
        total.update(set(outcome.operation.tags))
        if outcome.is_chosen:
            tools.update(set(outcome.operation.tags))
    shown = [f"{_shown(tag)} {tools[tag]} of {count}" for tag, count in total.most_common(MAX_TAGS)]
    more = len(total) - len(shown)
    return ", ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _security(document: Document, terms: Terms) -> str:
    """Each security scheme of the document, and who has a credential for it."""
    declared = document.components.get("securitySchemes")
    schemes = declared if isinstance(declared, dict) else {}
    shown = [
        f"{_shown(name)} ({_scheme(document, scheme)}): {_covered(name, document, terms)}"
        for name, scheme in schemes.items()
    ]
    return "; ".join(shown[:MAX_SCHEMES]) or "the document names no security schemes"


def _scheme(document: Document, node: Json) -> str:
    """A security scheme in a few words, with the URLs that nobody here opens."""
    try:
        scheme = document.resolve(node)
    except OperationError:
        return "cannot be read"
    kind = scheme.get("type")
    if kind == "http":
        return f"http {_shown(str(scheme.get('scheme')))}"
    if kind == "apiKey":
        return f"apiKey, {_shown(str(scheme.get('name')))} in {_shown(str(scheme.get('in')))}"
    return ", ".join([_shown(str(kind)), *map(_shown, dict.fromkeys(_urls(scheme)))])


def _urls(scheme: JsonObject) -> Iterator[str]:
    flows = scheme.get("flows")
    for flow in flows.values() if isinstance(flows, dict) else ():
        if isinstance(flow, dict):
            yield from (flow[name] for name in URLS if isinstance(flow.get(name), str))
    if isinstance(url := scheme.get("openIdConnectUrl"), str):
        yield url


def _covered(name: str, document: Document, terms: Terms) -> str:
    """Who has a credential for a scheme: as calls have it of an operation that asks for nothing else."""
    asking = Operation(method="GET", template="/", prefix="", security=[{name: []}])
    access, _, notes = access_of(asking, document, terms)
    if notes:
        return "not covered"
    if access.lent:
        is_token = name in terms.lent_tokens
        return f"callers supply {'their token of ' if is_token else ''}{access.lent[0].id}"
    return "auth.schemes" if terms.auth == "schemes" else "auth"


def _count_ignored(root: JsonObject) -> str:
    """What a document has besides operations to call."""
    callbacks = sum(
        len(node["callbacks"])
        for item in root.get("paths", {}).values()
        for node in (item.values() if isinstance(item, dict) else ())
        if isinstance(node, dict) and isinstance(node.get("callbacks"), dict)
    )
    webhooks = root.get("webhooks")
    counts = {"callback": callbacks, "webhook": len(webhooks) if isinstance(webhooks, dict) else 0}
    return ", ".join(f"{count} {what}{'s' * (count > 1)}" for what, count in counts.items() if count)


def _values_models_must_give(outcomes: Iterable[OperationOutcome]) -> Iterator[tuple[str, str]]:
    """Headers and cookies that a model has to make up."""
    for outcome in outcomes:
        for parameter in outcome.tool.plan.parameters if outcome.tool else ():
            if parameter.where in ("header", "cookie") and parameter.required and parameter.fixed is UNSET:
                what = f"the {parameter.where} {_shown(parameter.name)}"
                yield (
                    f"a model must give {what}; fix it under arguments if it is the same for all",
                    _named(outcome.operation),
                )


def _named_by_place(operations: Sequence[Operation], terms: Terms) -> Iterator[tuple[str, str]]:
    """Operations whose names would be those of others."""
    words = Counter(word(operation.id).lower() for operation in operations)
    for operation in operations:
        if operation.id and words[word(operation.id).lower()] > 1 and not tool_terms(operation, terms).name:
            yield "other operations have the same operationId, so its name is made of method and path", operation.place


def _choice(outcome: OperationOutcome) -> str:
    """A line of `include` for an operation; one that becomes no tool is commented out."""
    operation = outcome.operation
    if len(operation.id or operation.template) > MAX_CHOSEN:
        return f"# {operation.method} {_shown(operation.template)} has a name that is too long to choose it by"
    if operation.id:
        match = f"{{operation: {json.dumps(operation.id)}}}"
    else:
        match = f"{{path: {json.dumps(operation.template)}, method: {operation.method}}}"
    about = operation.place if operation.id else operation.summary.partition("\n")[0]
    if not outcome.is_chosen:
        return f"# - {match} # {outcome.reason or 'It cannot be a tool.'}"
    return f"- {match} # {_shown(about)}".removesuffix(" # ")
