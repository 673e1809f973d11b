"""Pages can be read: no sentence of the handbook, the examples and the pages beside them is longer than one holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.markdown import PAGES, ROOT
from tests.support.sentences import Sentence, sentences

MAX_WORDS = 35
READ = [ROOT / "README.md", *sorted(ROOT.glob("[CS]*.md")), *PAGES, *sorted(ROOT.glob("examples/**/*.md"))]

SPLIT = {
    "One. Two!\nThree? (Four.) five": [(1, "One."), (1, "Two!"), (1, "Three?"), (1, "(Four.) five")],
    "Yes, e.g. This; no: that.": [(1, "Yes, e.g This; no: that.")],
    "Version 1.0 of `a. B` and [a. B](c.md).": [(1, "Version 1.0 of CODE and a."), (1, "B.")],
    "# Head\nText\nof it\n\n- one\n  more\n- two": [(1, "Head"), (2, "Text of it"), (5, "one more"), (7, "two")],
    "| a | b. C |\n|---|---|\n| `x\\|y` | 1 |": [(1, "a"), (1, "b."), (1, "C"), (3, "CODE"), (3, "1")],
    "```yaml\na. B\n```\n<!-- c -->\nEnd.": [(5, "End.")],
}


@pytest.mark.parametrize(("page", "expected"), SPLIT.items())
def test_a_page_is_split_into_its_sentences(page: str, expected: list[tuple[int, str]]) -> None:
    assert [(it.line, it.text) for it in sentences(page)] == expected


def test_words_are_counted_as_a_reader_does() -> None:
    assert Sentence(1, "It's 4,300 bytes: CODE or 1.5 (well-known).").words == 7


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_sentence_is_longer_than_a_reader_can_hold(page: Path) -> None:
    long = [it for it in sentences(page.read_text("utf-8")) if it.words > MAX_WORDS]
    assert not long, [f"line {it.line}: {it.words} words: {it.text}" for it in long]
