"""The bill of materials: CycloneDX 1.6, of the Python packages that the image has beside Toolgate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from release.distributions import wheel_of
from release.tools import CHECKOUT, FailedError, MissingError, Release, beside_python, empty_environment, run

SPECIFICATION = "1.6"


def file_of(release: Release) -> Path:
    return release.dist / f"toolgate-{release.version}.cdx.json"


def packages(bill: dict[str, Any]) -> dict[str, str]:
    """The versions of all packages in a bill, by their normalized names."""
    return {normalized(one["name"]): one["version"] for one in bill.get("components", ())}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def build(release: Release) -> str:
    """Has cyclonedx-bom look at an environment with only the wheel and what it takes, with tracing as in the image."""
    wheel = wheel_of(release)
    if not wheel.exists():
        raise MissingError("there is no wheel")
    folder = release.work / "environment-sbom"
    empty_environment(folder, f"{wheel}[otel]")
    made = [release.work / f"{number}.cdx.json" for number in (1, 2)]
    for file in made:
        _write(folder, file, release)
    if made[0].read_bytes() != made[1].read_bytes():
        raise FailedError("two bills of materials differ")
    bill = json.loads(made[0].read_bytes())
    found = packages(bill)
    differing = found.items() - _pins().items() or found.items() ^ (release.packages or found).items()
    if not found or differing or bill["specVersion"] != SPECIFICATION:
        raise FailedError(
            f"the bill of materials has other versions than constraints.txt or the image: {sorted(differing)}"
        )
    _validate(made[0])
    file_of(release).write_bytes(made[0].read_bytes())
    return f"{file_of(release).name}: CycloneDX {SPECIFICATION}, valid, with {len(found)} packages"


def _write(folder: Path, file: Path, release: Release) -> None:
    """Writes a bill of an environment: Toolgate, and below it the packages that it takes."""
    raw = file.with_suffix(".raw")
    options = ("--sv", SPECIFICATION, "--of", "JSON", "--output-reproducible", "--validate")
    about = ("--pyproject", CHECKOUT / "pyproject.toml", "--mc-type", "application")
    program = beside_python("cyclonedx-py")
    run(program, "environment", *options, *about, "-o", raw, folder, environment=release.environment)
    bill = json.loads(raw.read_bytes())
    main = bill["metadata"]["component"]
    main["version"] = release.version
    # Another Python than that of the image may take further packages.
    kept = [one for one in bill["components"] if normalized(one["name"]) in (release.packages or _pins())]
    references = {main["bom-ref"], *(one["bom-ref"] for one in kept)}
    bill["components"] = kept
    bill["dependencies"] = [
        {**one, "dependsOn": [to for to in one.get("dependsOn", ()) if to in references]}
        for one in bill["dependencies"]
        if one["ref"] in references
    ]
    file.write_text(json.dumps(bill, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _validate(file: Path) -> None:
    """Checks a bill as it will be published. Raises FailedError."""
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError:
        raise MissingError("cyclonedx-bom is not installed, and nothing has judged the bill of materials") from None
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text("utf-8"))
    if wrong is not None:
        raise FailedError(f"the bill of materials is not valid: {wrong}")


def _pins() -> dict[str, str]:
    lines = (line.partition("#")[0].strip() for line in (CHECKOUT / "constraints.txt").read_text("utf-8").splitlines())
    pairs = (line.split("==") for line in lines if line)
    return {normalized(name): version for name, version in pairs}
