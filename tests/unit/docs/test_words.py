"""Protocols have one name each, which a page expands and links to its specification where it first uses it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.markdown import PAGES, ROOT, prose

SPECIFICATIONS = {
    "MCP": "https://modelcontextprotocol.io/specification",
    "OTC": "https://github.com/OpenToolCalling/Specification",
    "OTC RFC": "https://github.com/ArcadeAI/OpenToolCalling",
    "OXP": "https://github.com/OpenExecProtocol/Specification",
    "RAP": "https://infinity.hydro.run/docs/rap/spec/overview",
    "RCRT": "https://github.com/Ai-Layer-Labs/lightforge",
    "OpenAPI": "https://spec.openapis.org/oas/latest.html",
}
MEANINGS = {
    "MCP": "Model Context Protocol",
    "OTC": "Open Tool Calling",
    "OXP": "Open eXecution Protocol",
    "RAP": "Reactive Agent Protocol",
    "RCRT": "Right Context, Right Time",
}
READ = [ROOT / "README.md", *sorted(ROOT.glob("examples/*/README.md")), *PAGES]


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_expands_and_links_a_protocol_where_it_first_names_it(page: Path) -> None:
    text = sentences(page)
    for name, meaning in MEANINGS.items():
        first = re.search(rf".\b{name}\b(?!/).*", text)
        expected = f"[{name}]({SPECIFICATIONS[name]}) ({meaning})"
        assert first is None or first[0].startswith(expected), first[0][:80]


def sentences(page: Path) -> str:
    """A page in one line, without headings, tables, code and links to other pages."""
    text = re.sub(r"^(#|\|).*$", "", prose(page.read_text("utf-8")), flags=re.MULTILINE)
    text = re.sub(r"\[[^]]*\]\((?!https://)[^)]*\)", "", re.sub(r"`[^`]+`", "", text))
    return " ".join(text.split())


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_protocols_are_spelt_one_way(page: Path) -> None:
    text = sentences(page)
    for wrong in ("LangChain family", "LangChain style", "callback invocation"):
        assert wrong not in text
