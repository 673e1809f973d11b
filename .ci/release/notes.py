"""The notes of a release: the section that the changelog has about its version."""

from __future__ import annotations

import re
from itertools import pairwise

from release.tools import CHECKOUT, FailedError, Release

HEADING = re.compile(r"^## (\S+)[^\n]*\n", re.MULTILINE)


def section(changelog: str, version: str) -> str:
    """The text below the heading of a version, up to the next. Raises FailedError where there is none."""
    headings = [*HEADING.finditer(changelog), None]
    for heading, following in pairwise(headings):
        if heading is not None and heading[1] == version:
            text = changelog[heading.end() : following.start() if following else None].strip()
            if text:
                return f"{text}\n"
    raise FailedError(f"CHANGELOG.md says nothing about version {version}")


def write(release: Release) -> str:
    """Writes `NOTES.md`, and says which file it is."""
    text = section((CHECKOUT / "CHANGELOG.md").read_text("utf-8"), release.version)
    (release.dist / "NOTES.md").write_text(text, "utf-8")
    return "NOTES.md, from the changelog"
