"""The parameters of operations as arguments of tools: their names, and how they are sent (OpenAPI 3.2, Parameter)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence

from msgspec import UNSET, Struct, UnsetType

from gateway.core.model import Json, JsonObject
from gateway.core.wire import is_token
from gateway.protocols.openapi.document import media
from gateway.protocols.openapi.document.conversion import Converter
from gateway.protocols.openapi.document.kinds import SCALARS, VALUES, kinds_of, of_kinds, restricted
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.plan import METHOD_FIELD, STYLES, OperationError, Style, UnresolvedError, Where
from gateway.protocols.openapi.document.serialise import PLACEHOLDER, query_names, split_path

ORDER: tuple[Where, ...] = ("path", "query", "querystring", "header", "cookie")
BODY = "body"  # the argument that is the body, and nothing else

# The names of arguments that the large model APIs take.
ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_NAME = 256  # characters of a header or cookie
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")

KEY_HEADER = "idempotency-key"  # sent as the operator says


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Headers that no argument sets: OpenAPI excludes three of them; others frame the request, or are ours.
OURS = _names(
    f"""
    {KEY_HEADER} accept content-type authorization accept-encoding content-encoding content-length host te
    connection cookie expect forwarded keep-alive trailer transfer-encoding traceparent tracestate upgrade
    user-agent via
    """
)
OUR_PREFIXES = ("proxy-", "sec-", "x-forwarded-")
# Headers by which servers, and proxies before them, take a request for another method, path, host or address: only the
# operator may set one.
OVERRIDES = _names(
    """
    x-http-method-override x-http-method x-method-override http-method-override x-method x-original-url
    x-original-uri x-original-path x-original-method x-original-host x-rewrite-url x-rewrite-uri x-request-uri
    x-request-url x-url-scheme x-proxy-url x-http-destinationurl x-accel-redirect x-accel-internal x-sendfile x-host
    x-http-host x-http-host-override base-url x-real-ip real-ip client-ip x-client-ip true-client-ip
    x-true-client-ip x-cluster-client-ip cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 fastly-client-ip
    fly-client-ip x-remote-ip x-remote-addr remote-addr x-remote-host x-originating-ip x-proxyuser-ip
    x-custom-ip-authorization x-azure-clientip x-azure-socketip x-appengine-user-ip x-nf-client-connection-ip
    x-vercel-ip x-forwarded x-forward-for x-forwarder-for forwarded-for forwarded-for-ip x-source-ip x-scheme
    x-envoy-original-path x-envoy-original-host x-envoy-external-address x-remote-user remote-user
    x-authenticated-user x-ssl-client-cert x-ssl-client-verify
    """
)


class Argument(Struct, frozen=True, kw_only=True):
    """A parameter of an operation, as one argument of its tool; most fields are those of `plan.Parameter`."""

    argument: str
    name: str
    where: Where
    style: Style
    explode: bool
    required: bool
    schema: Json  # still the document's
    description: str = ""
    is_deprecated: bool = False
    allow_reserved: bool = False
    media_type: str = ""
    fixed: Json | UnsetType = UNSET
    encoded_slashes: bool = False


def arguments_of(
    operation: Operation,
    converter: Converter,
    excluded: Collection[tuple[str, str]],
    warnings: list[str],
    overridden: Collection[str] = (),
) -> list[Argument]:
    """The parameters of an operation in the order of their arguments. Raises OperationError.

    `excluded` are pairs of a place and a name, in lower case if it is that of a header: no argument goes there. `given`
    are the names of those of which the operator speaks.
    """
    path, query = split_path(operation.template)
    excluded = {*excluded, *(("query", name) for name in query_names(query))}
    nodes: list[tuple[Where, JsonObject]] = []
    for node in operation.parameters:
        where: Where = node["in"]
        if not _is_ours(where, node["name"], excluded, overridden):
            nodes.append((where, node))
        elif node["name"].lower() == KEY_HEADER and (where, KEY_HEADER) not in excluded:
            warnings.append("It takes an Idempotency-Key, which is sent if 'idempotency_key' is set.")
        elif _overrides(where, node["name"]):
            warnings.append(f"Only the operator can give {node['name'][:64]}, which makes a request mean another one.")
    placeholders = dict.fromkeys(PLACEHOLDER.findall(path))
    nodes = [(where, node) for where, node in nodes if _has_place(where, node["name"], placeholders, warnings)]
    for name in placeholders:
        if not any(where == "path" and node["name"] == name for where, node in nodes):
            warnings.append(f"Its path has {{{name}}}, and no parameter of that name; it is taken for a text.")
            nodes.append(("path", {"name": name, "required": True, "schema": {"type": "string"}}))
    nodes.sort(key=lambda entry: ORDER.index(entry[0]))
    _check_query([where for where, _ in nodes])
    names = argument_names([(where, node["name"]) for where, node in nodes])
    read = (_argument(where, node, name, converter, warnings) for (where, node), name in zip(nodes, names, strict=True))
    return [argument for argument in read if argument is not None]


def argument_names(parameters: Sequence[tuple[Where, str]]) -> list[str]:
    """The names of arguments for parameters in the order of their places; none depends on the order within a place."""
    names: dict[tuple[Where, str], str] = {}
    used = {BODY}
    is_plain = {parameter: ARGUMENT.fullmatch(parameter[1]) is not None for parameter in parameters}
    for where, name in sorted(parameters, key=lambda entry: (ORDER.index(entry[0]), not is_plain[entry], entry[1])):
        argument = legal = "query" if where == "querystring" else legal_name(name)
        if not argument or argument in used:
            argument = legal_name(f"{where}_{legal}")
        if not legal or argument in used:
            argument = _with_digest(f"{where}_{name}")
        names[where, name] = argument
        used.add(argument)
    return [names[parameter] for parameter in parameters]


def legal_name(name: str) -> str:
    """A name as models may write it: `filter[user]` becomes `filter_user`; empty if nothing is left of it."""
    if ARGUMENT.fullmatch(name):
        return name
    legal = _FOREIGN.sub("_", name).strip("_")
    return legal if len(legal) <= 64 else _with_digest(name)


def _with_digest(name: str) -> str:
    return f"{_FOREIGN.sub('_', name).strip('_')[:55]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _is_ours(where: str, name: str, excluded: Collection[tuple[str, str]], overridden: Collection[str]) -> bool:
    """Whether no caller may set a parameter; one that makes a request mean another may be `given`."""
    if where != "header":
        return (where, name) in excluded or (_overrides(where, name) and name not in overridden)
    plain = _plain(name)
    if plain in OURS or plain.startswith(OUR_PREFIXES) or (where, name.lower()) in excluded:
        return True
    return _overrides(where, name) and name not in overridden


def _overrides(where: str, name: str) -> bool:
    return _plain(name) in OVERRIDES if where == "header" else name.lower() == METHOD_FIELD and where == "query"


def _plain(header: str) -> str:
    """The name of a header as servers tell headers apart: for many of them `_` is the same as `-`."""
    return header.lower().replace("_", "-")


def _has_place(where: Where, name: str, placeholders: Collection[str], warnings: list[str]) -> bool:
    """Whether a parameter can be sent: those in the path need a placeholder. Raises OperationError for bad names."""
    if where == "path" and name not in placeholders:
        warnings.append(f"Its parameter {name[:64]!r} stands nowhere in its path; it is left out.")
        return False
    if where in ("header", "cookie") and not is_field_name(name):
        raise OperationError(f"Its parameter {name[:64]!r} cannot be the name of a {where}.")
    return True


def is_field_name(name: str) -> bool:
    """Whether a header or a cookie may have this name."""
    return len(name) <= MAX_NAME and is_token(name) is not None


def _check_query(places: Iterable[Where]) -> None:
    places = list(places)
    if places.count("querystring") > 1 or ("querystring" in places and "query" in places):
        raise OperationError("One of its parameters is the whole query, and others are in the query too.")


def _argument(
    where: Where, node: JsonObject, argument: str, converter: Converter, warnings: list[str]
) -> Argument | None:
    """One parameter; None for one that cannot be sent and may be left out. Raises OperationError."""
    name, required = node["name"], where == "path" or node.get("required") is True
    try:
        media_type, schema = _content(node, where, converter)
        style, explode = _style(where, {} if media_type else node)
        if schema is None:
            warnings.append(f"Its parameter {name[:64]!r} has no schema; it is taken for a text.")
            schema = {"type": "string"}
        if not media_type:
            style, schema = _sendable(style, schema, converter, explode=explode, required=required)
        elif where == "querystring" and not media.is_json(media_type):
            schema = of_kinds(schema, frozenset({"object"}), converter)
        elif not media.is_json(media_type):
            schema = restricted(schema, SCALARS, converter)
    except OperationError as exc:
        if required:
            raise OperationError(f"Its parameter {name[:64]!r} cannot be sent: {exc}") from exc
        warnings.append(f"Its parameter {name[:64]!r} is left out: {exc}")
        return None
    description = node.get("description")
    return Argument(
        argument=argument,
        name=name,
        where=where,
        style=style,
        explode=explode,
        required=required,
        schema=schema,
        description=description if isinstance(description, str) else "",
        is_deprecated=node.get("deprecated") is True,
        allow_reserved=node.get("allowReserved") is True,
        media_type=media_type,
    )


def _content(node: JsonObject, where: Where, converter: Converter) -> tuple[str, Json]:
    """The media type of a parameter that has one, and its schema. Raises OperationError."""
    content = converter.document.follow(node.get("content"))
    if not isinstance(content, dict) or not content:
        if where == "querystring":
            raise OperationError("it has no media type.")
        return "", node.get("schema")
    media_type, described = next(iter(content.items()))
    kind = media_type.partition(";")[0].strip().lower()
    is_form = kind == "application/x-www-form-urlencoded"
    if len(content) > 1 or is_form != (where == "querystring"):
        raise OperationError(f"its media type is {media_type[:64]!r}.")
    if not is_form and kind not in ("application/json", "text/json", "text/plain") and not kind.endswith("+json"):
        raise OperationError(f"its media type is {media_type[:64]!r}.")
    return kind, converter.document.resolve(described).get("schema", {})


def _style(where: Where, node: JsonObject) -> tuple[Style, bool]:
    style: Style = node.get("style") or (STYLES[where] or ("form",))[0]
    explode = node.get("explode")
    return style, explode if isinstance(explode, bool) else style in ("form", "cookie")


def _sendable(style: Style, schema: Json, converter: Converter, *, explode: bool, required: bool) -> tuple[Style, Json]:
    """The style in which values of a schema are sent, and the schema of those. Raises OperationError without any."""
    kinds = VALUES - {"null"} if required else VALUES  # null leaves a parameter out
    if style == "deepObject":  # in which anything has a form, but a text alone has no brackets
        if (value_kinds := kinds_of(schema, converter)) and value_kinds <= SCALARS:
            raise OperationError("deepObject is for objects.")
        return style, of_kinds(schema, kinds, converter) if required else schema
    sent = style
    if style in ("spaceDelimited", "pipeDelimited") and explode:
        sent, kinds = "form", kinds - {"object"}  # arrays are then each value with the name
    try:
        return sent, restricted(schema, kinds, converter)
    except UnresolvedError:
        raise
    except OperationError as exc:
        what = "values inside values" if "object" in kinds else "objects"
        raise OperationError(f"its style {style} has no form for {what}.") from exc
