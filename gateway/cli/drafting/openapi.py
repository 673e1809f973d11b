"""What `toolgate init` makes of an OpenAPI document."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from gateway.cli.drafting import schemes
from gateway.cli.drafting.draft import (
    ASKED_AS,
    Draft,
    ForeignServerError,
    NotSpokenError,
    Wanted,
    backend_yaml,
    checked,
    name_of,
    quoted,
)
from gateway.cli.drafting.listing import ASK_S, REFUSED
from gateway.cli.drafting.look import looking
from gateway.cli.output import FAILED, USAGE, CommandError, count
from gateway.core.errors import GatewayError
from gateway.core.jsontext import encode
from gateway.core.model import Rejected
from gateway.net.client import Origin
from gateway.protocols.common.listing import decode_report, decode_summary
from gateway.protocols.openapi.credentials import document_headers
from gateway.protocols.openapi.document.curation import ALL, Terms
from gateway.protocols.openapi.document.document import Document, DocumentError, read_document
from gateway.protocols.openapi.document.tools import decoder, read_operations
from gateway.protocols.openapi.settings import OpenApiBackendSettings
from gateway.protocols.openapi.sources import DocumentFile, Documents, DocumentUrl
from gateway.protocols.openapi.terms import terms_of
from gateway.upstream.replica_url import open_pool

# Where frameworks publish their documents: FastAPI and many others, Spring, ASP.NET, Django.
PLACES = (
    *("openapi.json", "openapi.yaml", "swagger.json", "v3/api-docs", "swagger/v1/swagger.json", "openapi/v1.json"),
    *("api/openapi.json", "docs/openapi.json", "api/schema/", "api-docs", "v2/api-docs", "openapi.yml", "swagger.yaml"),
)
# A version, at the top of JSON or YAML.
DECLARED = re.compile(rb"""(?:[{,]\s*"|^)(?:openapi|swagger)"?\s*:\s*["']?[0-9]""", re.MULTILINE)
SEARCH_S = 20.0  # for all of them
ANY_API = "api"  # a name where the title says nothing
VARIABLE = re.compile(r"\{([^{}]*)\}")
MAX_REASONS = 10  # lines about operations that cannot be tools
TOO_MANY = "operations.max"  # stands in what is said about too many operations


class Source(NamedTuple):
    """A document as it was read: where, and the YAML that says so."""

    place: str
    yaml: list[str]
    text: bytes
    document: Document


def is_document(text: bytes) -> bool:
    """Whether a text says that it is an OpenAPI document."""
    return DECLARED.search(text) is not None


async def draft(wanted: Wanted, protocol: str) -> Draft:
    """Reads a document, and drafts a backend that makes tools of it. Raises NotSpokenError, CommandError."""
    source = await _found(wanted)
    document, place = source.document, source.place
    name = wanted.name or name_of(document.title) or ANY_API
    url = wanted.calls_url or _own_server(document, place, wanted)
    before = [f"url: {quoted(url)} # where calls go, whatever the document says", *source.yaml]
    after = list(_operations(wanted))
    terms = terms_of(_settings(name, [*before, *after], wanted.folder), name)
    found = _listed(terms, source.text)
    credentials = {} if wanted.token_env else schemes.credentials(name, document, terms)
    of = " ".join(document.title.split()) or place
    about = [f"  {name}: {count(len(found.tools), 'tool')} of {of}, called at {url}", *found.said]
    if place != wanted.place:
        about.append(f"  found its document (OpenAPI {document.dialect}) at {place}")
    variables = {name: what for one in credentials.values() for name, what in one.variables.items()}
    guessed = frozenset(variables)
    yaml = backend_yaml(name, protocol, [*before, *wanted.auth, *schemes.auth(credentials), *after])
    return Draft(
        protocol,
        f"OpenAPI {document.dialect}",
        name,
        yaml,
        found.tools,
        tuple(about),
        {**wanted.variables, **variables},
        guessed,
    )


async def _found(wanted: Wanted) -> Source:
    """The document that was named, or the first at a usual place below the URL. Raises NotSpokenError, CommandError."""
    is_open = wanted.place.startswith("http:") and not (wanted.is_near or wanted.allow_http)
    if is_open and wanted.is_document:
        hint = "--allow-http accepts it nevertheless."
        raise CommandError(USAGE, f"Anybody on the way to {wanted.place} can change this document: use https.", hint)
    if not wanted.is_url or wanted.is_document:
        return await _read(wanted, wanted.place)
    if is_open:
        raise NotSpokenError("documents are looked for over http only with --allow-http")
    refused = ""
    try:
        async with asyncio.timeout(SEARCH_S), looking(wanted.place, wanted.token) as look:
            for place in _places(wanted):
                seen = await look(place)
                if is_document(seen.body):
                    return await _read(wanted, place)
                if seen.status in (401, 403):
                    refused = refused or f"{place} answered {seen.status}"
    except TimeoutError as exc:
        raise NotSpokenError(f"no document was found within {SEARCH_S:g} s") from exc
    nothing = f"no document at {wanted.place} nor at {len(PLACES)} usual places"
    raise NotSpokenError(refused or nothing, wants_credential=bool(refused))


def _places(wanted: Wanted) -> Iterator[str]:
    """Where documents are looked for: below the URL, then at its host."""
    root = urljoin(wanted.base, "/").rstrip("/")
    places = [f"{base}/{path}" for path in PLACES for base in dict.fromkeys((wanted.base, root))]
    yield from (wanted.place, *places)


async def _read(wanted: Wanted, place: str) -> Source:
    """Reads a document; with the token if it is not to be had without one. Raises CommandError."""
    yaml = _document_yaml(wanted, place)
    try:
        text = await _fetch(wanted, yaml, place)
    except CommandError as exc:
        if not (wanted.token_env and wanted.is_url and REFUSED.search(str(exc))):
            raise
        yaml += [f"document_{line}" for line in wanted.auth]
        text = await _fetch(wanted, yaml, place)
    try:
        return Source(place, yaml, text, read_document(text))
    except DocumentError as exc:
        raise CommandError(USAGE, f"{place} cannot be used: {exc}") from exc


def _document_yaml(wanted: Wanted, place: str) -> list[str]:
    """Where the document is; a file by its path from the folder of the configuration."""
    if not wanted.is_url and not os.path.isabs(place):
        place = os.path.relpath(place, wanted.folder)
    return [f"document: {quoted(place)}", *(["allow_http: true"] if wanted.allow_http else [])]


def _settings(name: str, lines: Iterable[str], folder: Path) -> OpenApiBackendSettings:
    """The settings that some YAML makes. Raises CommandError."""
    settings = checked(f"auth: none\nbackends:\n{backend_yaml(name, 'openapi', lines)}", folder).backends[name]
    assert isinstance(settings, OpenApiBackendSettings)
    return settings


async def _fetch(wanted: Wanted, yaml: Sequence[str], place: str) -> bytes:
    """The text of a document. Raises CommandError."""
    settings = _settings(ASKED_AS, ["url: http://127.0.0.1", *yaml], wanted.folder)
    url = settings.document_url
    credentials = document_headers(settings.document_auth)
    source: Documents = (
        DocumentUrl(url, credentials, open_pool(settings, url)) if url else DocumentFile(settings.document)
    )
    try:
        async with asyncio.timeout(ASK_S):
            fetched = await source.read(None)
    except GatewayError as exc:
        said = (exc.detail or exc.message).removeprefix("its document ")
        raise CommandError(FAILED, f"{place} {said}.") from exc
    except TimeoutError as exc:
        raise CommandError(FAILED, f"{place} was not there within {ASK_S:g} s.") from exc
    finally:
        await source.aclose()
    assert fetched is not None  # nothing was known before
    return fetched.text


def _own_server(document: Document, place: str, wanted: Wanted) -> str:
    """The URL of the document's first server, if the user may be taken to know it: a document is somebody else's words.

    Of a file that is so unless a token would go there. Raises OtherOriginError, and as `_server`.
    """
    url = _server(document, place)
    knows = Origin.parse(url) == Origin.parse(place) if wanted.is_url else not wanted.token_env
    if not knows:
        raise ForeignServerError(url, place, is_url=wanted.is_url, has_token=wanted.token_env is not None)
    return url


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
        parts = urlsplit(urljoin(place if re.match("https?:", place) else "", url))
        Origin.parse(parts.geturl())
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or "{" in parts.geturl():
        said = f" ({url})" if found else ""
        raise CommandError(USAGE, f"The document does not say where its API is{said}; say so with --url.")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _operations(wanted: Wanted) -> Iterator[str]:
    """The YAML that chooses operations."""
    yield "operations:"
    if wanted.methods:
        yield f"  methods: [{', '.join(map(quoted, wanted.methods))}]"
    else:
        yield "  methods: [GET, QUERY] # what only reads; all: also what changes something"
    matches = [f"tag: {quoted(tag)}" for tag in wanted.tags]
    matches += [f"operation: {quoted(glob)}" for glob in wanted.operations]
    if matches:
        yield "  include:"
        yield from (f"    - {{{match}}}" for match in matches)
    if wanted.max_tools is not None:
        yield f"  max: {wanted.max_tools}"


class ListedOperations(NamedTuple):
    """The ids of its tools, and lines about what became of the rest."""

    tools: tuple[str, ...]
    said: tuple[str, ...]


def _reasons(rejected: Sequence[Rejected]) -> Iterator[str]:
    """A line for each of the first operations that cannot be tools."""
    yield from (f"  {one.id}: {one.reason}" for one in rejected[:MAX_REASONS])
    if len(rejected) > MAX_REASONS:
        yield f"  and {len(rejected) - MAX_REASONS} others"


def _listed(terms: Terms, text: bytes) -> ListedOperations:
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
        said.append(f"  left out {len(summary.rejected)} that cannot be tools; toolgate check --live says why")
    decode = decoder()
    tools = tuple(tool.tool for part in parts for tool in decode(part))
    if not tools and not said:
        raise CommandError(USAGE, "The document has no operation.")
    if not tools:
        said = [*said[: len(report.left_out)], *_reasons(summary.rejected)]
        hint = (
            "" if terms.methods == (ALL,) else "With --method all, operations that change something become tools, too."
        )
        raise CommandError(USAGE, "None of its operations becomes a tool:", *said, *filter(None, [hint]))
    return ListedOperations(tools, tuple(said))
