"""What may not be in a built site: links and anchors that lead nowhere, and anything fetched from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("iframe", "src"),
    ("object", "data"),
}
IN_STYLES = re.compile(r"""(?:url\(|@import)\s*['"]?((?:https?:)?//[^'")\s]+)""")
# Markdown of GitHub that Python-Markdown would leave as it stands.
NOT_RENDERED = re.compile(r"^\s*(```|\|.*\|\s*$|[-*] \S)|\]\(", re.MULTILINE)


class Page(HTMLParser):
    """The anchors of a page, what it links to, what it fetches, and the text of its paragraphs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.paragraphs: list[str] = []
        self._within: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)
            elif (tag, name) in FETCHED and value:
                self.fetched.append(value)
        if tag == "p":
            self.paragraphs.append("")
        if tag in ("p", "code"):
            self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._within and self._within[-1] == tag:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if self._within and self._within[-1] == "p":
            self.paragraphs[-1] += data


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong with one version of the site, as lines to read."""
    site = site.resolve()
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.fetched:
            if elsewhere(address):
                yield f"{name}: fetches {address}"
        for address in [*page.links, *page.fetched]:
            if not elsewhere(address) and (wrong := leads_nowhere(path, address, pages)):
                yield f"{name}: {address}: {wrong}"
        for text in page.paragraphs:
            if NOT_RENDERED.search(text):
                yield f"{name}: is not rendered: {text.strip()[:80]}"
    for style in sorted(site.rglob("*.css")):
        for address in IN_STYLES.findall(style.read_text("utf-8")):
            yield f"{style.relative_to(site)}: fetches {address}"


def elsewhere(address: str) -> bool:
    """Whether an address is of another host, or of no file at all."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("data", "mailto")


def leads_nowhere(path: Path, address: str, pages: dict[Path, Page]) -> str | None:
    """Says what is wrong with a link of a page, if anything."""
    parts = urlsplit(address)
    if parts.scheme or parts.path.startswith("/"):
        return "is not relative"
    led = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if led.is_dir():
        led /= "index.html"
    if not led.is_file():
        return "there is no such file"
    if parts.fragment and (led not in pages or unquote(parts.fragment) not in pages[led].anchors):
        return "there is no such anchor"
    return None
