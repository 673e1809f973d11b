"""What `toolgate init` makes of an OpenAPI document."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from gateway.backends.openapi_documents import DocumentFile, Documents, DocumentUrl
from gateway.backends.openapi_terms import terms_of
from gateway.backends.server import open_pool
from gateway.cli.init import Draft, checked
from gateway.cli.output import FAILED, USAGE, CommandError, count
from gateway.dialects.listings import decode_report, decode_summary
from gateway.errors import GatewayError
from gateway.jsontext import encode
from gateway.model import Rejected
from gateway.openapi.curation import ALL, chosen
from gateway.openapi.document import Document, DocumentError, read_document
from gateway.openapi.errors import OperationError
from gateway.openapi.operations import partial_operations
from gateway.openapi.terms import Terms
from gateway.openapi.tools import decoder, read_operations
from gateway.settings.openapi import OpenApiBackendSettings

# Words of titles that say nothing about the API.
EMPTY_WORDS = frozenset(
    {"a", "an", "and", "api", "apis", "demo", "description", "documentation", "example", "for", "http", "of"}
    | {"official", "openapi", "public", "rest", "sample", "server", "service", "spec", "specification", "swagger"}
    | {"the", "v"}
)
MAX_WORDS = 2  # of a title, in a name
MAX_NAME = 32  # characters of a name made of a title
VARIABLE = re.compile(r"\{([^{}]*)\}")
SCHEME = re.compile(r"[^\x00-\x20\x7f]{1,256}")
TOO_MANY = "operations.max"  # stands in what is said about too many operations


class Credential(NamedTuple):
    """A credential for a security scheme: its YAML, and the variables it names with what belongs there."""

    yaml: str
    variables: Mapping[str, str]


def draft(arguments: argparse.Namespace) -> Draft:
    """Reads a document, and drafts a backend that makes tools of it. Raises CommandError."""
    place, folder = arguments.document, arguments.output.parent
    if not _is_url(place) and not os.path.isabs(place):
        place = os.path.relpath(place, folder)
    before = [f"document: {_quoted(place)}", *(["allow_http: true"] if arguments.allow_http else [])]
    text = asyncio.run(_read(_settings("api", ["url: http://127.0.0.1", *before], folder), arguments.document))
    try:
        document = read_document(text)
    except DocumentError as exc:
        raise CommandError(USAGE, f"{arguments.document} cannot be used: {exc}") from exc
    name = arguments.name or _name(document.title)
    url = arguments.url or _server(document, place)
    before.insert(0, f"url: {_quoted(url)} # where calls go, whatever the document says")
    after = list(_operations(arguments))
    terms = terms_of(_settings(name, [*before, *after], folder), name)
    listed = _listed(terms, text)
    credentials = _credentials(name, document, terms)
    said = (f"  {name}: {count(listed.tools, 'tool')} of {document.title or place}, called at {url}", *listed.said)
    variables = {name: what for one in credentials.values() for name, what in one.variables.items()}
    return Draft(name, _yaml(name, [*before, *_auth(credentials), *after]), said, variables)


def _is_url(place: str) -> bool:
    return re.match("[A-Za-z][A-Za-z0-9+.-]+:", place) is not None


def _quoted(text: str) -> str:
    """Text as a YAML scalar in quotes, in which nothing is put in."""
    return json.dumps(text.replace("$", "$$"), ensure_ascii=False)


def _yaml(name: str, lines: Iterable[str]) -> str:
    return "".join([f"  {name}:\n    protocol: openapi\n", *(f"    {line}\n" for line in lines)])


def _settings(name: str, lines: Iterable[str], folder: Path) -> OpenApiBackendSettings:
    """The settings that some YAML makes. Raises CommandError."""
    settings = checked(f"auth: none\nbackends:\n{_yaml(name, lines)}", folder).backends[name]
    assert isinstance(settings, OpenApiBackendSettings)
    return settings


async def _read(settings: OpenApiBackendSettings, place: str) -> bytes:
    """The text of the document. Raises CommandError."""
    url = settings.document_url
    source: Documents = DocumentUrl(url, (), open_pool(settings, url)) if url else DocumentFile(settings.document)
    try:
        fetched = await source.read(None)
    except GatewayError as exc:
        said = (exc.detail or exc.message).removeprefix("its document ")
        raise CommandError(FAILED, f"{place} {said}.") from exc
    finally:
        await source.aclose()
    assert fetched is not None  # nothing was known before
    return fetched.text


def _name(title: str) -> str:
    """A name for the backend from the words of a title that say something: `Swagger Petstore 3.0`, `petstore`."""
    first = re.split(r"[-+:(|,]", title.lower().replace("'s ", " "))[0]
    words = [word for word in re.findall("[a-z0-9]+", first) if word not in EMPTY_WORDS]
    telling = [word for word in words if not re.fullmatch("v?[0-9]+", word)]
    return "_".join(telling[:MAX_WORDS])[:MAX_NAME].strip("_") or "api"


def _server(document: Document, place: str) -> str:
    """The URL of the document's first server. Raises CommandError if it names none."""
    servers = document.root.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else {}
    found = first.get("url") if isinstance(first, dict) else None
    variables = first.get("variables") if isinstance(first, dict) else None

    def value(match: re.Match[str]) -> str:
        variable = variables.get(match[1]) if isinstance(variables, dict) else None
        return str(variable.get("default", match[0])) if isinstance(variable, dict) else match[0]

    url = VARIABLE.sub(value, found if isinstance(found, str) else "/")
    try:
        parts = urlsplit(urljoin(place if _is_url(place) else "", url))
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or "{" in parts.geturl():
        said = f" ({url})" if found else ""
        raise CommandError(USAGE, f"The document does not say where its API is{said}; say so with --url.")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _operations(arguments: argparse.Namespace) -> Iterator[str]:
    """The YAML that chooses operations."""
    yield "operations:"
    if arguments.method:
        yield f"  methods: [{', '.join(map(_quoted, arguments.method))}]"
    else:
        yield "  methods: [GET, QUERY] # what only reads; all: also what changes something"
    matches = [f"tag: {_quoted(tag)}" for tag in arguments.tag]
    matches += [f"operation: {_quoted(glob)}" for glob in arguments.operation]
    if matches:
        yield "  include:"
        yield from (f"    - {{{match}}}" for match in matches)
    if arguments.max is not None:
        yield f"  max: {arguments.max}"


class Listed(NamedTuple):
    """How many tools there are, and lines about what became of the rest."""

    tools: int
    said: tuple[str, ...]


def _listed(terms: Terms, text: bytes) -> Listed:
    """What the gateway will make of the document. Raises CommandError where that is no list."""
    first, *parts = read_operations(encode(terms), text)
    summary = decode_summary(first)
    report = decode_report(summary.report)
    if summary.failure:
        tags = [f"Its tags: {said}" for label, said in report.facts if label == "tags"]
        hint = "Choose with --tag, --operation or --method, or allow more with --max."
        raise CommandError(USAGE, summary.failure, *tags, *([hint] if TOO_MANY in summary.failure else []))
    said = [f"  left out {len(group.ids)}: {group.text}" for group in report.left_out]
    if summary.rejected:
        said.append(f"  {len(summary.rejected)} cannot be tools; check says why")
    decode = decoder()
    tools = sum(len(decode(part)) for part in parts)
    if not tools:
        hint = (
            "" if terms.methods == (ALL,) else "With --method all, operations that change something become tools, too."
        )
        raise CommandError(USAGE, "None of its operations becomes a tool:", *said, *filter(None, [hint]))
    return Listed(tools, tuple(said))


def _credentials(name: str, document: Document, terms: Terms) -> dict[str, Credential]:
    """What operations that are chosen ask for, by security scheme: of alternatives the first that can be given."""
    found: dict[str, Credential] = {}
    for partial in partial_operations(document):
        if isinstance(partial, Rejected) or chosen(partial.operation, terms) is not None:
            continue
        alternatives = partial.node.get("security", document.root.get("security"))
        if not isinstance(alternatives, list) or {} in alternatives:  # it can be called without a credential
            continue
        for alternative in alternatives:
            schemes = {scheme: _credential(name, scheme, document) for scheme in alternative}
            given = {scheme: one for scheme, one in schemes.items() if one is not None}
            if len(given) == len(schemes):
                found |= given
                break
    return found


def _credential(name: str, scheme: str, document: Document) -> Credential | None:
    """A credential for a scheme; None if it is of a kind that the gateway cannot have."""
    declared = document.components.get("securitySchemes")
    try:
        node = document.resolve(declared.get(scheme)) if isinstance(declared, dict) else {}
    except OperationError:
        return None
    variable = re.sub("[^A-Z0-9]+", "_", f"{name}_{scheme}".upper()).strip("_")
    what = f"what the API expects for its security scheme {scheme}"
    match node:
        case _ if SCHEME.fullmatch(scheme) is None:
            return None
        case {"type": "apiKey", "in": "header" | "query" | "cookie" as where, "name": str(key)}:
            place = f"in: {where}, name: {_quoted(key)}"
            return Credential(f'api_key: {{{place}, value: "${{env:{variable}}}"}}', {variable: what})
        case {"type": "http", "scheme": str(word)} if word.lower() == "basic":
            user, password = f"{variable}_USER", f"{variable}_PASSWORD"
            yaml = f'basic: {{user: "${{env:{user}}}", password: "${{env:{password}}}"}}'
            return Credential(yaml, {user: f"{what}: the user", password: f"{what}: the password"})
        case {"type": "http", "scheme": str(word)} if word.lower() == "bearer":
            return Credential(f'bearer: "${{env:{variable}}}"', {variable: f"{what}: a token"})
        case {"type": "oauth2" | "openIdConnect"}:
            return Credential(f'bearer: "${{env:{variable}}}"', {variable: f"{what}: a token"})
    return None


def _auth(credentials: Mapping[str, Credential]) -> Iterator[str]:
    """The YAML of the backend's credentials."""
    match list(credentials.items()):
        case []:
            return
        case [(_, one)]:
            yield f"auth: {{{one.yaml}}}"
        case several:
            yield "auth:"
            yield "  schemes:"
            yield from (f"    {_quoted(scheme)}: {{{one.yaml}}}" for scheme, one in several)
