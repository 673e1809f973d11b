"""The sentences of a page of Markdown: those of paragraphs, items, headings and cells of tables, not of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NO_PROSE = re.compile(r"^```.*?^```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
TABLE_RULE = re.compile(r"\|[\s:|-]+\|?$")
CELL = re.compile(r"(?<!\\)\|")
MARKER = re.compile(r"\s*(?:#+|[-*+]|\d+\.|>) +")  # begins a text of its own: a heading, an item, a quotation
CODE = re.compile(r"(`+).+?\1", re.DOTALL)
TAG = re.compile(r"<[^<>]+>")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ABBREVIATED = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.", re.IGNORECASE)
END = re.compile(r"""(?<=[.!?])["')*_\]]*\s+(?=["'(*_\[]*[A-Z0-9§])""")
WORD = re.compile(r"\w(?:[\w'./:@%+-]|,(?=\d))*")


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
    for line, text in _texts(NO_PROSE.sub(lambda match: "\n" * match[0].count("\n"), page)):
        plain = LINK.sub(r"\1", TAG.sub("", CODE.sub("CODE", text)))
        for sentence in END.split(ABBREVIATED.sub(r"\1", plain)):
            if sentence.strip():
                yield Sentence(line, " ".join(sentence.split()))


def _texts(page: str) -> Iterator[tuple[int, str]]:
    """Splits a page into what belongs together: each paragraph, item, heading and cell, with its line."""
    begin, gathered = 0, ""
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_row, marker = line.lstrip().startswith("|"), MARKER.match(line)
        if gathered and (is_row or marker or not line.strip() or gathered.startswith("#")):
            yield begin, gathered.lstrip("# ")
            gathered = ""
        if is_row and not TABLE_RULE.match(line.strip()):
            yield from ((number, cell) for cell in CELL.split(line) if cell.strip())
        elif line.strip() and not is_row:
            begin = begin if gathered else number
            gathered += f"{line}\n" if not marker or line.startswith("#") else line[marker.end() :] + "\n"
