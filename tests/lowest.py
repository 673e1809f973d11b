"""Prints `constraints.txt` with what `pyproject.toml` asks for at run time at the lowest versions it admits."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_-]+)(\[[a-z,]+\])?>=(?P<lowest>[0-9.]+)(,<[0-9.]+)?")

FREE = {"pydantic-core"}  # each pydantic asks for exactly one


def lowest() -> dict[str, str]:
    """The lower bounds, by normalized name (PEP 503)."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    found = [REQUIREMENT.fullmatch(line) for line in dependencies]
    assert None not in found, "every dependency has a lower bound"
    return {_normalized(match["name"]): match["lowest"] for match in found if match}


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    bounds = lowest()
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        name, _, version = line.partition("==")
        if _normalized(name) not in FREE:
            print(f"{name}=={bounds.get(_normalized(name), version)}" if version else line)


if __name__ == "__main__":
    main()
