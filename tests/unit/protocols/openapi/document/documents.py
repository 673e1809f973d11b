"""Documents for tests: written as Python, read as the product reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.core.jsontext import encode
from gateway.core.model import Rejected
from gateway.protocols.common.listing import Bounds
from gateway.protocols.openapi.document.curation import Terms
from gateway.protocols.openapi.document.document import Document, read_document
from gateway.protocols.openapi.document.operations import Operation, completed, partial_operations
from gateway.protocols.openapi.document.plan import OperationError

URL = "https://api.example.test"
BOUNDS = Bounds(backend="shop", toolkit="Shop", max_tools=20_000, max_schema_bytes=64 * 1024)


def terms(**given: Any) -> Terms:
    return Terms(**{"bounds": BOUNDS, "url": URL, **given})


def root(paths: Mapping[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "Shop", "version": "1.2.3"}, "paths": paths, **more}


def document(paths: Mapping[str, Any], version: str = "3.1.0", url: str = URL, **more: Any) -> Document:
    return read_document(encode(root(paths, version, **more)), url)


def found(document: Document, base_path: str | None = None) -> dict[str, Operation | str]:
    """The operations of a document by place, and of those that cannot be tools the reasons by id."""
    results: dict[str, Operation | str] = {}
    for partial in partial_operations(document):
        if isinstance(partial, Rejected):
            results[partial.id] = partial.reason
            continue
        try:
            results[partial.operation.place] = completed(partial, document, base_path)
        except OperationError as exc:
            results[partial.operation.id or partial.operation.place] = str(exc)
    return results
