"""The sentences of a page of Markdown, with their lines: of paragraphs, items, headings and cells, not of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NO_PROSE = re.compile(r"^```.*?^```$|<!--.*?-->|<[^>\n]+>", re.MULTILINE | re.DOTALL)
TABLE_RULE = re.compile(r"\|[\s:|-]+\|?$")
CELL = re.compile(r"(?<!\\)\|")
ALONE = re.compile(r"\s*(?:#|[-*+] |\d+\. |>)")  # begins a text of its own: a heading, an item, a quotation
MARKER = re.compile(r"\s*(?:#+|[-*+]|\d+\.|>) +")
CODE = re.compile(r"(`+).+?\1", re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ABBREVIATED = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.", re.IGNORECASE)
END = re.compile(r"""(?<=[.!?])["')*_\]]*\s+(?=["'(*_\[]*[A-Z0-9§])""")
WORD = re.compile(r"\w[\w'’./:@%+-]*")


@dataclass(frozen=True)
class Sentence:
    """One sentence, in which a piece of code is the word `CODE`, and the line where its paragraph begins."""

    line: int
    text: str

    @property
    def words(self) -> int:
        return len(WORD.findall(self.text))


def sentences(page: str) -> Iterator[Sentence]:
    """Splits a page into sentences; a colon and a semicolon end none."""
    for line, text in texts(NO_PROSE.sub(lambda match: "\n" * match[0].count("\n"), page)):
        plain = LINK.sub(r"\1", CODE.sub("CODE", text))
        for sentence in END.split(ABBREVIATED.sub(r"\1", plain)):
            if sentence.strip():
                yield Sentence(line, " ".join(sentence.split()))


def texts(page: str) -> Iterator[tuple[int, str]]:
    """Splits a page into what belongs together: each paragraph, item, heading and cell, with its line."""
    begin, gathered = 0, ""
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_row = line.lstrip().startswith("|")
        if gathered and (is_row or not line.strip() or ALONE.match(line)):
            yield begin, gathered
            gathered = ""
        if is_row:
            if not TABLE_RULE.match(line.strip()):
                yield from ((number, cell) for cell in CELL.split(line) if cell.strip())
            continue
        if not gathered:
            begin = number
        gathered += "\n" + MARKER.sub("", line, count=1) if ALONE.match(line) else "\n" + line
        if line.lstrip().startswith("#"):
            yield begin, gathered
            gathered = ""
