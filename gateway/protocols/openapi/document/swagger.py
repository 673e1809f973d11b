"""Swagger 2.0 as OpenAPI 3.0, so that all else knows one kind of document.

What has no meaning in 3.0, and references that lead nowhere, stay as they are: the operation that has them is refused
where it is read.
"""

from __future__ import annotations

from typing import Any

from gateway.core.model import Json, JsonObject
from gateway.protocols.openapi.document import references
from gateway.protocols.openapi.document.plan import METHODS, OperationError

JSON = "application/json"
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
# Members of a parameter, an item or a header that are those of a schema in 3.0 (Swagger 2.0, Parameter Object).
SCHEMA_MEMBERS = frozenset(
    (
        "type", "format", "items", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
        "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "enum", "multipleOf", "x-nullable",
    )
)  # fmt: skip
STYLES = {"csv": ("form", False), "ssv": ("spaceDelimited", False), "pipes": ("pipeDelimited", False)}
FLOWS = {"accessCode": "authorizationCode", "application": "clientCredentials"}
MOVED = {
    "#/definitions/": "#/components/schemas/",
    "#/parameters/": "#/components/parameters/",
    "#/responses/": "#/components/responses/",
}
NAMED_SCHEMAS = ("properties", "patternProperties", "definitions", "dependencies")
RENAMED = {"x-nullable": "nullable"}
# Some of these are no keywords of Swagger 2.0, and are in its documents all the same; a list has one or several each.
INNER_SCHEMAS = frozenset(("items", "additionalItems", "additionalProperties", "propertyNames", "contains"))
INNER_SCHEMAS |= {"allOf", "anyOf", "oneOf", "not", "if", "then", "else"}


def to_openapi3(root: JsonObject) -> JsonObject:
    """The document in 3.0; the given one stays as it is."""
    return _SwaggerConversion(root).document()


class _SwaggerConversion:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._consumes = _texts(root.get("consumes"))
        self._produces = _texts(root.get("produces"))

    def document(self) -> JsonObject:
        root = self._root
        paths = root.get("paths")
        converted: JsonObject = {name: value for name, value in root.items() if name.startswith("x-")}
        converted |= {name: root[name] for name in ("info", "security", "tags") if name in root}
        schemas = {name: schema_of(schema) for name, schema in _members(root.get("definitions"))}
        return converted | {
            "openapi": "3.0.3",
            "definitions": schemas,  # for references in parts that are taken as they are, such as those of files
            "servers": self._servers(),
            "paths": {path: self._path_item(item) for path, item in paths.items()}
            if isinstance(paths, dict)
            else paths,
            "components": {
                "schemas": schemas,
                "responses": {
                    name: self._response(response, self._produces) for name, response in _members(root.get("responses"))
                },
                "securitySchemes": {
                    name: _security_scheme(scheme) for name, scheme in _members(root.get("securityDefinitions"))
                },
            },
        }

    def _servers(self) -> list[Json]:
        """The server of the document; without a host it is wherever the backend's URL says."""
        host, base_path, schemes = (self._root.get(name) for name in ("host", "basePath", "schemes"))
        path = base_path.rstrip("/") if isinstance(base_path, str) else ""
        if not isinstance(host, str) or not host:
            return [{"url": path}]
        return [{"url": f"{scheme}://{host}{path}"} for scheme in _texts(schemes)] or [{"url": f"//{host}{path}"}]

    def _path_item(self, item: Json) -> Json:
        if not isinstance(item, dict):
            return item
        if isinstance(item.get("$ref"), str):
            try:
                item = references.resolve(self._root, item)
            except OperationError:
                return item
        shared = self._parameters(item.get("parameters"))
        converted = {name: value for name, value in item.items() if name.startswith("x-")}
        for method, operation in item.items():
            if method in METHODS:
                converted[method] = self._operation(operation, shared)
        return converted

    def _parameters(self, listed: Json) -> Json:
        """Parameters with those of the document in place of references to them."""
        return [self._parameter_at(entry) for entry in listed] if isinstance(listed, list) else listed

    def _parameter_at(self, entry: Json) -> Json:
        try:
            return references.resolve(self._root, entry)
        except OperationError:
            return entry

    def _operation(self, operation: Json, shared: Json) -> Json:
        try:
            operation = references.resolve(self._root, operation)
        except OperationError:
            return operation
        moved = ("parameters", "responses", "consumes", "produces", "schemes")
        converted = {name: value for name, value in operation.items() if name not in moved}
        own = self._parameters(operation.get("parameters", []))
        if not isinstance(own, list) or not isinstance(shared, list | None):
            return converted | {"parameters": own if not isinstance(own, list) else shared}
        listed = {_key(entry) for entry in own}
        inherited = [entry for entry in shared or [] if _key(entry) not in listed]
        fields = [entry for entry in (*inherited, *own) if _where(entry) == "formData"]
        bodies = [entry for entry in (*inherited, *own) if _where(entry) == "body"]
        parameters = [entry for entry in (*inherited, *own) if _where(entry) not in ("formData", "body")]
        converted["parameters"] = [_parameter(entry) for entry in parameters]
        consumes = _texts(operation.get("consumes")) or self._consumes
        if bodies:
            converted["requestBody"] = _body(bodies[0], consumes or [JSON])
        elif fields:
            converted["requestBody"] = _form(fields, consumes)
        produces = _texts(operation.get("produces")) if "produces" in operation else self._produces
        responses = operation.get("responses")
        if isinstance(responses, dict):
            converted["responses"] = {key: self._response(value, produces) for key, value in responses.items()}
        return converted

    def _response(self, response: Json, produces: list[str]) -> Json:
        if not isinstance(response, dict):
            return response
        if isinstance(response.get("$ref"), str):
            try:
                response = references.resolve(self._root, response)
            except OperationError:
                return response
        converted = {name: value for name, value in response.items() if name not in ("schema", "examples", "headers")}
        if "schema" in response:
            schema = schema_of(response["schema"])
            converted["content"] = {media_type: {"schema": schema} for media_type in produces or [JSON]}
        return converted


def schema_of(schema: Json) -> Json:
    """A schema of Swagger 2.0 as one of 3.0."""
    if not isinstance(schema, dict):
        return schema
    converted = {RENAMED.get(name, name): _member(name, value) for name, value in schema.items() if name != "example"}
    if schema.get("type") == "file":
        converted |= {"type": "string", "format": "binary"}
    return converted


def _member(name: str, value: Json) -> Json:
    """A member of a schema."""
    if name in INNER_SCHEMAS:
        return [schema_of(entry) for entry in value] if isinstance(value, list) else schema_of(value)
    if name in NAMED_SCHEMAS and isinstance(value, dict):
        return {inner: schema_of(named) for inner, named in value.items()}
    if name == "$ref" and isinstance(value, str):
        return _moved(value)
    if name == "discriminator" and isinstance(value, str):
        return {"propertyName": value}
    return value


def _parameter(entry: Json) -> Json:
    """A parameter that is not the body, nor part of one."""
    if not isinstance(entry, dict) or "$ref" in entry:
        return entry
    dropped = SCHEMA_MEMBERS | {"collectionFormat", "x-example"}
    converted = {name: value for name, value in entry.items() if name not in dropped}
    converted["schema"] = schema_of({name: value for name, value in entry.items() if name in SCHEMA_MEMBERS})
    if entry.get("type") == "array":
        style, explode = _style(entry.get("collectionFormat", "csv"))
        in_query = entry.get("in") == "query"
        converted |= {"style": style if in_query or style != "form" else "simple", "explode": explode}
    return converted


def _style(collection_format: Any) -> tuple[str, bool]:
    """The style of an array; one that 3.0 does not have keeps its name, and is refused where it is read."""
    if collection_format == "multi":
        return "form", True
    return STYLES.get(str(collection_format), (str(collection_format), False))


def _body(entry: JsonObject, consumes: list[str]) -> JsonObject:
    schema = schema_of(entry.get("schema", {}))
    converted: JsonObject = {"content": {media_type: {"schema": schema} for media_type in consumes}}
    return converted | {name: entry[name] for name in ("description", "required") if name in entry}


def _form(fields: list[JsonObject], consumes: list[str]) -> JsonObject:
    """The body of an operation whose form fields are listed among its parameters."""
    properties: JsonObject = {}
    encoding: JsonObject = {}
    for entry in fields:
        name = str(entry.get("name", ""))
        schema = schema_of({member: value for member, value in entry.items() if member in SCHEMA_MEMBERS})
        if isinstance(entry.get("description"), str):
            schema["description"] = entry["description"]
        properties[name] = schema
        if entry.get("type") == "array":
            style, explode = _style(entry.get("collectionFormat", "csv"))
            encoding[name] = {"style": style, "explode": explode}
    required = [str(entry.get("name", "")) for entry in fields if entry.get("required") is True]
    schema = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    has_file = any(entry.get("type") == "file" for entry in fields)
    allowed = [
        media_type for media_type in consumes if media_type.partition(";")[0].strip().lower() in (FORM, MULTIPART)
    ]
    if has_file or not allowed:
        allowed = [MULTIPART if has_file else FORM]
    media: JsonObject = {"schema": schema} | ({"encoding": encoding} if encoding else {})
    return {"content": dict.fromkeys(allowed, media), "required": bool(required)}


def _security_scheme(scheme: Json) -> Json:
    """A security scheme; only what tells credentials apart, and scopes, is kept of OAuth."""
    if not isinstance(scheme, dict):
        return scheme
    if scheme.get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    if scheme.get("type") != "oauth2":
        return scheme
    flow = str(scheme.get("flow", ""))
    flow_members = {name: scheme[name] for name in ("authorizationUrl", "tokenUrl", "scopes") if name in scheme}
    return {"type": "oauth2", "flows": {FLOWS.get(flow, flow): flow_members}}


def _moved(reference: str) -> str:
    for before, after in MOVED.items():
        if reference.startswith(before):
            return after + reference.removeprefix(before)
    return reference


def _where(entry: Json) -> Any:
    return entry.get("in") if isinstance(entry, dict) else None


def _key(entry: Json) -> tuple[Any, Any]:
    """What tells a parameter from others; there is one body, whatever its name."""
    where = _where(entry)
    name = entry.get("name") if isinstance(entry, dict) else None
    return ("", "body") if where == "body" else (str(name), str(where))


def _members(value: Json) -> list[tuple[str, Json]]:
    return list(value.items()) if isinstance(value, dict) else []


def _texts(value: Json) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
