"""What is installed, beside the versions that `constraints.txt` names."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"


def pins() -> dict[str, str]:
    """The version of each distribution, by its normalized name."""
    pairs = (line.split("==") for line in requirements(CONSTRAINTS))
    return {canonicalize_name(name): version for name, version in pairs}


def requirements(file: Path) -> list[str]:
    """The lines of a requirements file that are not comments."""
    lines = (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())
    return [line for line in lines if line]


def required(*extras: str) -> list[str]:
    """What `pyproject.toml` asks for, with the extras given."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]


def installed_for(lines: Iterable[str]) -> dict[str, str]:
    """The version of everything that is installed here because of some requirements, themselves included.

    Raises PackageNotFoundError.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    open_ = list(lines)
    while open_:
        line = open_.pop()
        if line in seen:
            continue
        seen.add(line)
        requirement = Requirement(line)
        one = distribution(requirement.name)
        found[canonicalize_name(requirement.name)] = one.version
        open_ += [needed for needed in one.requires or () if _applies(needed, requirement.extras)]
    return found


def _applies(line: str, extras: set[str]) -> bool:
    """Whether a distribution that was asked for with these extras asks for this."""
    marker = Requirement(line).marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def differing(found: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """What is installed in another version than the one that was tested: both. Our own is whatever it is."""
    tested = {**pins(), "toolgate-gateway": found.get("toolgate-gateway")}
    return {name: (version, tested.get(name)) for name, version in found.items() if tested.get(name) != version}
