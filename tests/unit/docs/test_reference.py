"""The reference of the configuration is the one the code declares, and says something of every key."""

from __future__ import annotations

from gateway.settings.load import reference_text
from tests.support.markdown import DOCS
from tests.unit.settings.configured import schema

PAGE = DOCS / "configuration.md"


def test_the_page_is_the_one_the_code_declares() -> None:
    ours = "make it anew: python -m gateway.settings.load --markdown > docs/configuration.md"
    assert PAGE.read_text("utf-8") == reference_text(), ours


def test_every_key_of_every_section_has_a_row() -> None:
    text = reference_text()
    for section in schema()["$defs"].values():
        for name in section["properties"]:
            assert f"| `{name}` | " in text
