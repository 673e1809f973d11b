"""The operations of a document, with all that paths, references and the document's root add to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gateway.core.model import Json, JsonObject, Rejected
from gateway.core.wire import is_token
from gateway.protocols.common.listing import MAX_SHOWN
from gateway.protocols.openapi.document.document import Document
from gateway.protocols.openapi.document.plan import METHODS, STYLES, OperationError
from gateway.protocols.openapi.document.serialise import PLACEHOLDER, split_path

NEVER = frozenset(("TRACE", "CONNECT"))
MAX_ALTERNATIVES = 100  # of the security of an operation, each of which is looked at for each operation
# Of these every operation has some.
MEMBERS = frozenset(("operationId", "summary", "description", "parameters", "requestBody", "responses"))
MAX_METHOD = 64  # characters
RESPONSE = re.compile(r"[1-5](?:[0-9]{2}|XX)")
NO_NAME = re.compile(r"[+#./;?&*].*|.*[*]")  # of RFC 6570, which are not OpenAPI's


class Operation(Struct, frozen=True, kw_only=True):
    """One operation, without references but those of its schemas."""

    method: str  # in capitals
    template: str  # its path as the document has it
    prefix: str  # the path of its server
    id: str = ""
    summary: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    is_deprecated: bool = False
    parameters: Sequence[JsonObject] = ()  # those of its path and its own
    body: JsonObject | None = None
    responses: JsonObject = {}  # by status, `2XX` or `default`
    security: Sequence[JsonObject] | None = None  # alternatives: scopes by scheme; None: the document says nothing
    is_offered: bool = True  # false: the document has `x-mcp: false` for it

    @property
    def place(self) -> str:
        """What tells it from all others: `GET /users/{id}`."""
        return f"{self.method} {self.template}"


class PartialOperation(Struct, frozen=True):
    """An operation as far as choosing and naming it takes: without prefix, parameters, body, responses and security."""

    operation: Operation
    node: JsonObject  # the document's
    path_node: JsonObject  # that of its path


def partial_operations(document: Document) -> Iterator[PartialOperation | Rejected]:
    """All operations of a document, in its order, as far as choosing and naming them takes."""
    offered = document.root.get("x-mcp")
    for path, path_item in document.root.get("paths", {}).items():
        if path.startswith("x-"):
            continue
        try:
            path_node = _resolved(document, path_item)
        except OperationError as exc:
            yield Rejected(id=path[:MAX_SHOWN], reason=str(exc))
            continue
        for method, item in _by_method(path_node, document):
            try:
                node = _resolved(document, item)
                if node is not item:
                    _check_is_operation(node)
            except OperationError as exc:
                yield Rejected(id=f"{method} {path}"[:MAX_SHOWN], reason=str(exc))
                continue
            operation = _read_partial(method, path, node, path_node.get("x-mcp", offered))
            yield PartialOperation(operation, node, path_node)


def _check_is_operation(node: JsonObject) -> None:
    """Raises OperationError for what a reference leads to that is something else: it would be called without all."""
    if not node.keys().isdisjoint((*METHODS, "paths")) or node.keys().isdisjoint(MEMBERS):
        raise OperationError("It refers to something that is no operation.")


def completed(partial: PartialOperation, document: Document, base_path: str | None) -> Operation:
    """An operation with all that calls need of the document. Raises OperationError."""
    operation, node, path_node = partial.operation, partial.node, partial.path_node
    _check_template(operation.template)
    security = node.get("security", document.root.get("security"))
    if isinstance(security, list) and len(security) > MAX_ALTERNATIVES:
        raise OperationError(f"Its 'security' has more than {MAX_ALTERNATIVES} alternatives.")
    if security is not None and not _are_objects(security):
        raise OperationError("Its 'security' is no list of objects.")
    return replace(
        operation,
        prefix=_prefix(document, base_path, node, path_node),
        parameters=_parameters(document, node, path_node),
        body=_body(document, node.get("requestBody")),
        responses=_responses(document, node.get("responses")),
        security=security,
    )


def rejected(operation: Operation, reason: str) -> Rejected:
    """Why an operation is no tool."""
    return Rejected(id=(operation.id or operation.place)[:MAX_SHOWN], reason=reason)


def _resolved(document: Document, item: Json) -> JsonObject:
    """A path item, or an operation; what stands beside its `$ref` wins. Raises OperationError."""
    node = document.resolve(item)
    return node if node is item else {**node, **{name: item[name] for name in item if name != "$ref"}}


def _by_method(path_node: JsonObject, document: Document) -> Iterator[tuple[str, Json]]:
    """The operations of a path by their method, in capitals."""
    for name, node in path_node.items():
        if name in METHODS and (name != "query" or document.dialect == "3.2"):
            yield name.upper(), node
    more = path_node.get("additionalOperations")
    if document.dialect == "3.2" and isinstance(more, dict):
        for method, node in more.items():
            if len(method) <= MAX_METHOD and is_token(method) and method.upper() not in NEVER:
                yield method, node


def _read_partial(method: str, path: str, node: JsonObject, offered: Json) -> Operation:
    tags = node.get("tags")
    return Operation(
        method=method,
        template=path,
        prefix="",
        id=_text(node, "operationId"),
        summary=_text(node, "summary"),
        description=_text(node, "description"),
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        is_deprecated=node.get("deprecated") is True,
        is_offered=node.get("x-mcp", offered) is not False,
    )


def _check_template(path: str) -> None:
    """Raises OperationError for a path that could lead elsewhere, or that is not one of OpenAPI."""
    if not path.startswith("/"):
        raise OperationError("Its path does not begin with '/'.")
    if PLACEHOLDER.search(path.partition("#")[0].partition("?")[2]):
        raise OperationError("Its path has a query with a placeholder.")
    path, _ = split_path(path)
    rest = PLACEHOLDER.sub("x", path)
    if wrong := next((character for character in rest if character in "{}?#\\" or not character.isprintable()), ""):
        raise OperationError(f"Its path has the character {wrong!r}, which no path may have.")
    segments = rest.replace("%2e", ".").replace("%2E", ".").split("/")[1:]
    if any(segment in (".", "..") for segment in segments) or "" in segments[:-1]:
        raise OperationError("Its path has an empty segment, '.' or '..'.")
    for name in PLACEHOLDER.findall(path):
        if not name or NO_NAME.fullmatch(name):
            raise OperationError(f"Its path has {{{name[:MAX_SHOWN]}}}, which is not of OpenAPI.")


def _prefix(document: Document, base_path: str | None, node: JsonObject, path_node: JsonObject) -> str:
    """The path before that of the operation; the operator's `base_path` stands in place of the document's."""
    if base_path is None:
        return document.prefix(node, path_node)
    if (node.get("servers") or path_node.get("servers")) and document.prefix(node, path_node) != document.prefix():
        raise OperationError("It has a server of its own with another path, and 'base_path' is set.")
    return base_path.rstrip("/")


def _parameters(document: Document, node: JsonObject, path_node: JsonObject) -> tuple[JsonObject, ...]:
    """The parameters of the path, with those of the operation in place of any of the same name (3.2, Operation)."""
    parameters = {
        **_parameters_of(document, path_node.get("parameters")),
        **_parameters_of(document, node.get("parameters")),
    }
    return tuple(parameters.values())


def _parameters_of(document: Document, listed: Json) -> dict[tuple[str, str], JsonObject]:
    """Parameters by place and name; names of headers are the same in any case. Raises OperationError."""
    listed = document.follow(listed)
    if not isinstance(listed, list | None):
        raise OperationError("Its 'parameters' are no list.")
    parameters: dict[tuple[str, str], JsonObject] = {}
    for entry in listed or ():
        parameter = document.resolve(entry)
        name, where = parameter.get("name"), parameter.get("in")
        if not isinstance(name, str) or (not name and where != "querystring"):
            raise OperationError("It has a parameter without a name.")
        if not isinstance(where, str) or where not in STYLES:
            raise OperationError(f"Its parameter {name[:MAX_SHOWN]!r} is in {str(where)[:20]!r}, which is no place.")
        if parameter.get("style", _usual(where)) not in (_usual(where), *STYLES[where]):
            style = str(parameter["style"])[:20]
            raise OperationError(f"Its parameter {name[:MAX_SHOWN]!r} has the style {style!r}, which {where} has not.")
        key = where, name.lower() if where == "header" else name
        if key in parameters:
            raise OperationError(f"It has the parameter {name[:MAX_SHOWN]!r} in {where} twice.")
        parameters[key] = parameter
    return parameters


def _usual(where: str) -> str | None:
    return STYLES[where][0] if STYLES[where] else None


def _body(document: Document, node: Json) -> JsonObject | None:
    return None if node is None else _with_content(document, document.resolve(node))


def _responses(document: Document, node: Json) -> JsonObject:
    """The responses by status, `2XX` or `default`; one of a failure that cannot be read says nothing."""
    node = document.follow(node)
    if not isinstance(node, dict | None):
        raise OperationError("Its 'responses' are no object.")
    responses: JsonObject = {}
    for key, response in (node or {}).items():
        status = "default" if key == "default" else key.upper()
        if status != "default" and not RESPONSE.fullmatch(status):
            continue
        try:
            responses[status] = _with_content(document, document.resolve(response))
        except OperationError:
            if status[0] in "2d":
                raise
    return responses


def _with_content(document: Document, holder: JsonObject) -> JsonObject:
    """A body or response with its media types resolved (3.2, Media Type Object)."""
    content = document.follow(holder.get("content"))
    if content is None:
        return holder
    if not isinstance(content, dict):
        raise OperationError("It has a 'content' that is no object.")
    return {**holder, "content": {name: document.resolve(media_type) for name, media_type in content.items()}}


def _are_objects(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _text(node: JsonObject, name: str) -> str:
    value = node.get(name)
    return value if isinstance(value, str) else ""
