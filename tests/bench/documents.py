"""What a large OpenAPI document costs the gateway: to read it, to hold its tools, to look at it when it is the same.

The document is that of GitHub's API, which `make test-interop` installs. What the gateway takes before a small one is
subtracted.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import calls
from tests.bench.children import ROOT
from tests.bench.figures import LargeDocument
from tests.bench.machine import cpu_s, own_rss_bytes
from tests.bench.rounds import Place
from tests.bench.subjects import BACKEND, Subject, toolgate

GITHUB = ROOT / ".venvs/openapi/node_modules/@octokit/openapi/generated/api.github.com.json"
LOOKS = 4  # at the document, a second apart
LARGE = "large"


def missing() -> str | None:
    """Why it cannot be measured, if it cannot."""
    return None if GITHUB.exists() else "A large document is not measured: install it with make test-interop."


def weigh_document(place: Place) -> LargeDocument:
    """Loads the document, and has it looked at again after its file was touched. Raises BenchError."""
    place.say("a document of 1,223 operations")
    with TemporaryDirectory(prefix="bench-") as folder:
        document = Path(folder, "large.json")
        shutil.copyfile(GITHUB, document)
        with place.run(_subject()) as (_, running):
            assert running.pid is not None
            idle_s, idle_bytes = cpu_s(running.pid), own_rss_bytes(running.pid)
        with place.run(_subject(document)) as (bed, running):
            assert running.pid is not None
            loaded_s, held_bytes = cpu_s(running.pid), own_rss_bytes(running.pid)
            for _ in range(LOOKS):
                document.touch()
                bed.poller.serve_for(1.0)
            looked_s = cpu_s(running.pid) - loaded_s
    return LargeDocument(loaded_s - idle_s, (held_bytes - idle_bytes) / 1e6, looked_s / LOOKS)


def _subject(document: Path | None = None) -> Subject:
    """The gateway before a small API, and before that of a document."""
    backends, routes = {}, [{"tools": f"{calls.TOOLKIT}.*", "backend": BACKEND}]
    if document is not None:
        backends[LARGE] = {
            "protocol": "openapi",
            "url": "http://127.0.0.1:9",
            "document": str(document),
            "operations": {"methods": ["all"], "max": 2000},
            "discovery": {"refresh": "1s"},
        }
        routes.append({"tools": "*", "backend": LARGE})
    config = {"logging": {"level": "warning"}, "backends": backends, "routes": routes}
    return Subject(LARGE, toolgate, protocol="openapi", config=config, form=calls.OTC_BODY)
