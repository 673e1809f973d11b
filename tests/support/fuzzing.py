"""Schemathesis (PyPI): requests made by a document, good ones and bad ones, and a look at every answer.

It runs as a program of its own, in an environment of its own: inside pytest it takes the event loop away from other
tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.programs import interpreter
from tests.support.terminal import ROOT

EXAMPLES = 3  # requests of each kind by chance, beside those by the hundred that try every border of the document
DEADLINE_S = 240.0  # a run takes some 10 s on an idle machine
SEED = 20250214
# Where Hypothesis, on which it builds, finds its tables of Unicode; else each run made them anew, for half its time.
UNICODE = ROOT / ".hypothesis"
# That a request fits the document does not mean that there is such a tool, or that this is its input.
EXCLUDED = "positive_data_acceptance"


def fuzz(document: dict[str, Any], url: str, directory: Path, *options: str, examples: int = EXAMPLES) -> None:
    """Lets Schemathesis look for anything that contradicts the document."""
    file = directory / "openapi.json"
    file.write_text(json.dumps(document))
    done = subprocess.run(
        [
            *(interpreter("schemathesis"), "-m", "schemathesis.cli", "run", str(file), "--url", url),
            *("--exclude-checks", EXCLUDED, "--phases", "examples,coverage,fuzzing", "--continue-on-failure"),
            *("--max-examples", str(examples), "--seed", str(SEED), "--no-shrink", *options),
            *("--generation-database", ":memory:"),
        ],
        cwd=directory,
        env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(UNICODE)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    operations = sum(len(methods) for methods in document["paths"].values())
    assert f"Tested: {operations}\n" in done.stdout
    passed = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[2]) > 10 * operations, done.stdout
