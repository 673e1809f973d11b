"""The website of the handbook has every page, and its check finds what is wrong; `make docs` builds it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from gateway.settings import reference
from tests.site import staging, versions
from tests.support.markdown import DOCS, PAGES, headings, links, rows

INDEX = DOCS / "README.md"


def test_the_navigation_has_every_page_once_in_the_order_of_the_index() -> None:
    first, *others = staging.order()
    assert first == INDEX.name
    assert others == [links(row[0])[0] for row in rows(f"# Pages\n{INDEX.read_text('utf-8')}", "Pages")]
    assert sorted(others) == sorted(page.name for page in PAGES if page != INDEX)


def test_what_is_staged_has_all_pages_and_the_files_they_lead_to(tmp_path: Path) -> None:
    staging.stage(tmp_path)
    settings = tomllib.loads((tmp_path / "zensical.toml").read_text("utf-8"))["project"]
    *pages, files = settings["nav"]
    assert pages == staging.order()
    assert "repository/CHANGELOG.md" in files["Files"]
    for name in [*pages, *files["Files"], "concepts.svg"]:
        assert (tmp_path / "pages" / name).is_file()
    assert (tmp_path / "pages/repository/examples/mcp/server.py.md").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_have_the_anchors_that_links_use(page: Path) -> None:
    for heading in headings(page.read_text("utf-8")):
        assert staging.anchor(heading) == reference.anchor(heading)


def test_versions_are_listed_with_the_newest_first_and_the_first_page_leads_there(tmp_path: Path) -> None:
    for name in ("0.2.0", "0.10.0", "dev", "0.9.1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    versions.write(tmp_path)
    listed = json.loads((tmp_path / "versions.json").read_text("utf-8"))
    assert [one["version"] for one in listed] == ["0.10.0", "0.9.1", "0.2.0", "dev"]
    assert [one["aliases"] for one in listed] == [["latest"], [], [], []]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text("utf-8")
