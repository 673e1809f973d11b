"""Broken configuration files and the exact problems each must get.

In the text files beside this one a case is a `## name`, the file, and a line `=> line:column: path: message` for
each problem.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Broken(NamedTuple):
    name: str
    text: str
    problems: list[str]


def broken_files() -> list[Broken]:
    """Reads all cases."""
    texts = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.txt"))]
    return [_case(block) for text in texts for block in f"\n{text}".split("\n## ")[1:]]


def _case(block: str) -> Broken:
    name, _, rest = block.partition("\n")
    text, _, problems = f"\n{rest}".partition("\n=> ")
    return Broken(name, f"{text}\n".lstrip("\n"), problems.rstrip("\n").split("\n=> "))
