"""Whatever the comparison says of another program, it says where that can be read, of which version, and since when."""

from __future__ import annotations

import re
from datetime import date

import pytest

from gateway import __version__
from tests.support.markdown import DOCS, links, rows

TEXT = (DOCS / "comparison.md").read_text("utf-8")
TABLES = ("What happens to a call", "Protocols", "Who may call, and what", "Running it")
NOTHING = ("", "not documented", "not measured here")
MEASURED = "what a call costs"  # the page of performance is its source
PUBLISHERS = (
    "https://ibm.github.io/mcp-context-forge/",
    "https://github.com/IBM/mcp-context-forge/",
    "https://agentgateway.dev/",
    "https://theagentrouter.ai/docs/",
    "https://gateway.envoyproxy.io/docs/",
    "https://docs.litellm.ai/docs/",
    "https://gofastmcp.com/docs/",
    "https://github.com/PrefectHQ/fastmcp",
)  # of their own documentation
SOURCES = {row[0]: row[1:] for row in rows(TEXT, "Sources")}
SAID = {row[0]: row[2:] for table in TABLES for row in rows(TEXT, table) if row[0] != MEASURED}


def test_every_row_has_its_sources_in_the_same_order() -> None:
    assert list(SOURCES) == list(SAID)


@pytest.mark.parametrize("row", SAID)
def test_a_row_has_a_source_for_each_program_of_which_it_says_something(row: str) -> None:
    looked_at, *cells = SOURCES[row]
    assert date(2026, 11, 23) <= date.fromisoformat(looked_at)
    assert [cell != "" for cell in cells] == [said not in NOTHING for said in SAID[row]]
    for cell in cells:
        assert not cell or links(cell)
        assert all(link.startswith(PUBLISHERS) for link in links(cell))


def test_tables_name_the_versions_that_were_looked_at() -> None:
    heads = re.findall(r"^\| \| (Toolgate .*) \|$", TEXT, re.MULTILINE)
    assert len(heads) == len(TABLES)
    (head,) = set(heads)
    versions = [name.rpartition(" ")[2] for name in head.split(" | ")]
    listed = [re.split("[, ]", row[1])[0] for row in rows(TEXT, "What was looked at")]
    assert versions == listed
    assert versions[0] == __version__
