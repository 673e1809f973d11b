"""Real documents, and what becomes of their operations: `python -m tests.interop.openapi.documents` writes it down.

What is written (`documents.json`) is for each document how many operations are tools, and how many are not for which
reason. It is read by people: a line that changes is a change of what operators get.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.core.jsontext import encode
from gateway.protocols.common import listing as listings
from gateway.protocols.common.listing import Bounds
from gateway.protocols.openapi.document.curation import Terms
from gateway.protocols.openapi.document.plan import OperationTool
from gateway.protocols.openapi.document.tools import decoder, read_operations
from tests import plainhttp
from tests.interop.openapi.programs import BLOCKFROST, GITHUB, HERE, README, api

GOLDEN = HERE / "documents.json"
MAX_SCHEMA_BYTES = 64 * 1024
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "QUERY")


def read(text: bytes, url: str = "https://api.example.com") -> tuple[listings.Summary, list[OperationTool]]:
    """Reads a document as the gateway does, with every operation wanted."""
    bounds = Bounds(backend="api", toolkit="Api", max_tools=20_000, max_schema_bytes=MAX_SCHEMA_BYTES)
    terms = Terms(bounds=bounds, url=url, methods=METHODS, include_deprecated=True, max_operations=20_000)
    first, *parts = read_operations(encode(terms), text)
    decode = decoder()
    tools = [tool for part in parts for tool in decode(part)]
    return listings.decode_summary(first), tools


def files() -> Iterator[tuple[str, Path]]:
    """The documents that are files, by short names."""
    yield "GitHub", GITHUB
    yield "Blockfrost", BLOCKFROST
    for file in sorted(README.glob("*/json/**/*.json")):
        yield f"readme {file.relative_to(README)}".replace("/json/", " "), file


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """Where the documents are that APIs serve; those run meanwhile."""
    with api("app.py", "key") as notes, api("bin.py") as bin_:
        yield {"FastAPI": f"{notes}/openapi.json", "httpbin": f"{bin_}/spec.json"}


def outcome(text: bytes) -> dict[str, Any]:
    """What became of the operations of a document."""
    summary, tools = read(text)
    if summary.failure:
        return {"failure": summary.failure}
    reasons = Counter(_general(rejected.reason) for rejected in summary.rejected)
    return {"tools": len(tools), "left out": dict(sorted(reasons.items()))}


def _general(reason: str) -> str:
    """A reason without what is particular to one operation."""
    return re.sub(r"[0-9]+", "N", re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "…", reason))


def main() -> None:
    found = {name: outcome(file.read_bytes()) for name, file in files()}
    with served() as urls, plainhttp.client() as http:
        found |= {name: outcome(http.get(url).content) for name, url in urls.items()}
    GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
