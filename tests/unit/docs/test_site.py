"""The website of the handbook has every page, and its check finds what is wrong; `make docs` builds it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from gateway.settings import reference
from tests.site import checking, staging, versions
from tests.support.markdown import DOCS, PAGES, ROOT, headings, links, rows

INDEX = DOCS / "README.md"
WRONG = [
    ('<a href="b.html">', "there is no such file"),
    ('<a href="page.html#gone">', "there is no such anchor"),
    ('<a href="#gone">', "there is no such anchor"),
    ('<a href="/page.html">', "is not relative"),
    ('<img src="gone.png">', "there is no such file"),
    ('<img src="https://example.com/a.png">', "fetches"),
    ('<script src="//example.com/a.js"></script>', "fetches"),
    ('<link rel="stylesheet" href="https://example.com/a.css">', "fetches"),
    ("<p>a list:\n- one</p>", "is not rendered"),
    ("<p>| a | b |</p>", "is not rendered"),
    ("<p>[a](b.md)</p>", "is not rendered"),
]


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


def test_links_lead_to_the_pages_that_files_have_in_the_site() -> None:
    text = "[a](../config/minimal.yaml), [b](mcp.md#tasks), [c](../README.md), [d](#here)\n"
    assert staging.adapted(text, DOCS / "operating.md") == (
        "[a](repository/config/minimal.yaml.md), [b](mcp.md#tasks), [c](repository/README.md), [d](#here)\n"
    )
    assert staging.adapted("[a](docs/mcp.md) [b](examples)\n", ROOT / "README.md") == (
        "[a](../mcp.md) [b](examples/files.md)\n"
    )


def test_a_block_shows_the_name_of_its_file_and_nothing_else_that_its_fence_says() -> None:
    text = "```yaml gateway.yaml\n[a](../b.md)\n```\n```console cluster\n$ a\n```\n"
    staged = '```yaml title="gateway.yaml"\n[a](../b.md)\n```\n```console\n$ a\n```\n'
    assert staging.adapted(text, INDEX) == staged


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_have_the_anchors_that_links_use(page: Path) -> None:
    for heading in headings(page.read_text("utf-8")):
        assert staging.anchor(heading) == reference.anchor(heading)


@pytest.mark.parametrize(("wrong", "found"), WRONG)
def test_the_check_finds(wrong: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<h1 id="top">a</h1>{wrong}')
    (problem,) = checking.problems(tmp_path)
    assert found in problem


def test_a_style_may_fetch_nothing_from_another_host(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text('a { background: url("data:,") } b { background: url(https://example.com/a.png) }')
    assert list(checking.problems(tmp_path)) == ["a.css: fetches https://example.com/a.png"]


def test_the_check_is_content_with_what_is_right(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/index.html").write_text('<a href="../page.html#top">a</a> <a href="https://example.com">b</a>')
    (tmp_path / "page.html").write_text('<h1 id="top">a</h1><a href="b/">b</a><p><code>[a](b)</code> c</p>')
    assert list(checking.problems(tmp_path)) == []


def test_versions_are_listed_with_the_newest_first_and_the_first_page_leads_there(tmp_path: Path) -> None:
    for name in ("0.2.0", "0.10.0", "dev", "0.9.1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    versions.write(tmp_path)
    listed = json.loads((tmp_path / "versions.json").read_text("utf-8"))
    assert [one["version"] for one in listed] == ["0.10.0", "0.9.1", "0.2.0", "dev"]
    assert [one["aliases"] for one in listed] == [["latest"], [], [], []]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text("utf-8")
