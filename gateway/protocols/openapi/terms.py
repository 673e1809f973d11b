"""What the settings of an API say about its document, for the package that reads documents."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import convert

from gateway.protocols.openapi.document.curation import Match, Terms, ToolTerms
from gateway.protocols.openapi.settings import OpenApiBackendSettings
from gateway.protocols.openapi.settings_auth import (
    BasicAuthSettings,
    PlacedKeyAuthSettings,
    SchemesAuthSettings,
    header_of,
)
from gateway.upstream.list_reader import bounds_of
from gateway.upstream.settings import HeaderAuthSettings

Kind = Literal["", "bearer", "basic", "api_key", "header", "schemes"]


def terms_of(settings: OpenApiBackendSettings, backend: str) -> Terms:
    """The terms of the backend with that name."""
    operations, auth, key = settings.operations, settings.auth, settings.idempotency_key
    key_place = auth.api_key if isinstance(auth, PlacedKeyAuthSettings) else None
    reads_files = settings.references == "files" and not settings.document_url
    return Terms(
        bounds=bounds_of(backend, settings),
        url=settings.addresses[0],
        base_path=settings.base_path,
        folder=str(Path(settings.document).resolve().parent) if reads_files else "",
        version=settings.version or "",
        methods=operations.methods,
        include=convert(operations.include, tuple[Match, ...], from_attributes=True),
        exclude=convert(operations.exclude, tuple[Match, ...], from_attributes=True),
        include_deprecated=operations.include_deprecated,
        max_operations=operations.max_tools,
        arguments=dict(settings.arguments),
        tools=convert(settings.tools, dict[str, ToolTerms], from_attributes=True),
        server_variables=dict(settings.server_variables),
        output_schemas=settings.output_schemas,
        deep_arrays=settings.deep_arrays,
        max_binary_bytes=settings.max_binary_bytes,
        success=settings.success or "",
        key_header="" if key is None else key.header,
        key_quoted=key is None or key.form == "quoted",
        auth=_kind(settings),
        auth_header=header_of(auth),
        auth_in="" if key_place is None else key_place.where or "",
        auth_name="" if key_place is None else key_place.name or "",
        schemes=tuple(auth.schemes) if isinstance(auth, SchemesAuthSettings) else (),
        lent_tokens=dict(settings.caller_tokens),
        lent_secrets=dict(settings.caller_secrets),
    )


def _kind(settings: OpenApiBackendSettings) -> Kind:
    """What kind of credential the backend has; how a bearer token is come by does not matter to a document."""
    match settings.auth:
        case None:
            return ""
        case BasicAuthSettings():
            return "basic"
        case PlacedKeyAuthSettings():
            return "api_key"
        case HeaderAuthSettings():
            return "header"
        case SchemesAuthSettings():
            return "schemes"
    return "bearer"
