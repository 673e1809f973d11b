"""Pages of Markdown, taken apart: blocks of code, commands with their output, headings, links and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = tuple(sorted(DOCS.glob("*.md")))

FENCE = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT_CODE = re.compile(r"  # exit code (\d)$")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, and what the fence says after it."""

    language: str
    mark: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A command of a page, and the output that the page shows, if any."""

    line: str
    shown: Sequence[str]
    code: int = 0


def blocks(text: str, language: str | None = None, mark: str | None = None) -> list[Block]:
    """The fenced blocks of a page, all or those of a language or a mark."""
    found = (
        Block(match[1], match[2], match[3], text.count("\n", 0, match.start()) + 1) for match in FENCE.finditer(text)
    )
    return [block for block in found if language in (None, block.language) and mark in (None, block.mark)]


def commands(text: str) -> list[Command]:
    """The commands of a console block: after `$ `, continued where a line ends with a backslash."""
    found: list[Command] = []
    joined = re.sub(r"\\\n\s*", "", text)
    for line in joined.splitlines():
        if line.startswith("$ "):
            code = EXIT_CODE.search(line)
            found.append(Command(EXIT_CODE.sub("", line[2:]), [], int(code[1]) if code else 0))
        else:
            found[-1] = Command(found[-1].line, [*found[-1].shown, line], found[-1].code)
    return found


def prose(text: str) -> str:
    """A page without its fenced blocks and comments."""
    return re.sub(r"<!--.*?-->", "", FENCE.sub("", text), flags=re.DOTALL)


def headings(text: str) -> list[str]:
    """The words of all headings, in order."""
    return re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)


def anchors(page: Path) -> list[str]:
    """The addresses of all headings of a page, in order."""
    from gateway.settings.reference import anchor  # late: where the site is made, the gateway is not installed

    return [anchor(heading) for heading in headings(page.read_text("utf-8"))]


def links(text: str) -> list[str]:
    """Where a page leads, as written."""
    return re.findall(r"\]\(([^)\s]+)\)", prose(text))


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    _, found, below = text.partition(f"# {heading}\n")
    assert found, f"there is no heading {heading!r}"
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert table, f"there is no table below {heading!r}"
    lines = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in table[0].splitlines()]
    return [[cell.strip() for cell in line] for line in lines[2:]]
