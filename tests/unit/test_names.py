"""A class name stands once in the package, so that it says which class is meant wherever it is read."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.support.terminal import ROOT


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "gateway").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert {name: lines for name, lines in places.items() if len(lines) > 1} == {}
