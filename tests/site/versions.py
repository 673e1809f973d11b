"""Several versions of the site side by side, each in a folder of its name, as the chooser of the theme reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")
LEADS_ON = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Toolgate</title>
<link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">The handbook of Toolgate {version}</a>
</html>
"""


def found(site: Path) -> list[str]:
    """The versions there are, the newest first."""
    names = (path.parent.name for path in site.glob("*/index.html"))
    return sorted((name for name in names if VERSION.fullmatch(name)), key=_age, reverse=True)


def _age(version: str) -> list[tuple[bool, int, str]]:
    """Orders numbers as numbers, and a name such as `dev` before them all."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"[.-]", version)]


def write(site: Path) -> None:
    """Writes the list for the chooser, and a first page that leads to the newest version."""
    versions = found(site)
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if name == versions[0] else []} for name in versions
    ]
    (site / "versions.json").write_text(json.dumps(listed, indent=2) + "\n", "utf-8")
    (site / "index.html").write_text(LEADS_ON.format(version=versions[0]), "utf-8")
