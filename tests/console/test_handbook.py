"""The page of the handbook about the console: its pictures are there, and it speaks of every page."""

from __future__ import annotations

import re

import pytest

from gateway.console.files import static_files
from tests.console.pictures import PAGES, SCHEMES
from tests.support.markdown import DOCS, headings

PAGE = (DOCS / "console.md").read_text("utf-8")
PNG = b"\x89PNG\r\n\x1a\n"
NAMED = sorted(set(re.findall(r'(?:src|srcset)="(images/[^"]+)"', PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_a_picture_that_is_named_is_there(name: str) -> None:
    assert (DOCS / name).read_bytes().startswith(PNG)


def test_every_picture_that_is_made_is_shown_in_light_and_in_dark_and_put_into_words() -> None:
    assert sorted(f"images/console/{name}-{scheme}.png" for name in PAGES for scheme in SCHEMES) == NAMED
    assert len(re.findall(r'<img [^>]*alt="[^"]{30,}"', PAGE)) == len(PAGES)


def test_every_page_of_the_console_has_its_part() -> None:
    navigation = static_files()["index.html"].content.decode()
    pages = re.findall(r'<a href="#/\w*">(\w+)</a>', navigation)
    assert len(pages) == 6
    assert set(pages) <= set(headings(PAGE))
