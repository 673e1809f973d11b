"""Lays out the pages of the site: those of docs/, and all files of the repository that they lead to."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tests.support.markdown import DOCS, FENCE, PAGES, ROOT, links

HERE = Path(__file__).parent
ELSEWHERE = PurePosixPath("repository")  # the folder in the site for what is not in docs/
# By suffix; the licence has none.
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".rego": "rego", ".md": "markdown", "": "text"}
FIRST = ("README.md", "CHANGELOG.md")  # of the section of files


def stage(folder: Path) -> None:
    """Fills a folder with the pages of the site and the file that Zensical reads."""
    pages = folder / "pages"
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.md"))
    shutil.copyfile(HERE / "toolgate.css", pages / "toolgate.css")
    for source in sources():
        page = pages / place(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text_of(source), "utf-8")
    settings = (HERE / "zensical.toml").read_text("utf-8")
    head, project, tail = settings.partition("[project]\n")
    (folder / "zensical.toml").write_text(f"{head}{project}nav = {navigation()}\n{tail}", "utf-8")


def order() -> list[str]:
    """The pages of the handbook in the order of its index, which comes first."""
    index = (DOCS / "README.md").read_text("utf-8")
    return ["README.md", *re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \|", index, re.MULTILINE)]


def navigation() -> str:
    """The pages of the handbook, and below them the files that its index names, as a value of TOML."""
    index = links((DOCS / "README.md").read_text("utf-8"))
    named = [target(DOCS / "README.md", link) for link in index]
    files = [ROOT / name for name in FIRST]
    files += [file for file in named if file is not None and not file.is_relative_to(DOCS) and file not in files]
    section = json.dumps([str(place(file)) for file in files])
    return f"[{', '.join(map(json.dumps, order()))}, {{Files = {section}}}]"


def sources() -> list[Path]:
    """The pages of docs/, and whatever can be reached from them by links."""
    found = dict.fromkeys(PAGES)
    open_ = list(PAGES)
    while open_:
        for led in leads_to(open_.pop()):
            if led not in found:
                found[led] = None
                open_.append(led)
    return list(found)


def leads_to(source: Path) -> Iterator[Path]:
    """The files and folders that a page has links to, itself left out."""
    if source.is_dir():
        yield from listed(source)
    elif source.suffix == ".md":
        for link in links(source.read_text("utf-8")):
            led = target(source, link)
            if led is not None and led != source and (led.is_dir() or led.suffix == ".md" or led.suffix in LANGUAGES):
                yield led


def listed(folder: Path) -> list[Path]:
    """The files below a folder that can be shown."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix in LANGUAGES)


def target(source: Path, link: str) -> Path | None:
    """The file or folder that a link of a page means; None for other hosts and for places on the page."""
    path = link.partition("#")[0]
    if "://" in link or not path:
        return None
    return Path(os.path.normpath(source.parent / path))


def place(source: Path) -> PurePosixPath:
    """Where in the site the Markdown of a file is."""
    if source.is_relative_to(DOCS):
        return PurePosixPath(source.relative_to(DOCS))
    name = ELSEWHERE / PurePosixPath(source.relative_to(ROOT))
    if source.is_dir():
        return name / "files.md"
    return name if source.suffix == ".md" else name.with_name(f"{name.name}.md")


def text_of(source: Path) -> str:
    """The Markdown of a page: the files of a folder, a file in a block of code, or a page with its links adapted."""
    name = source.relative_to(ROOT).as_posix()
    if source.is_dir():
        lines = (f"- [`{file.relative_to(ROOT).as_posix()}`]({between(source, file)})" for file in listed(source))
        return "\n".join((f"# {name}", "", *lines, ""))
    text = source.read_text("utf-8")
    if source.suffix == ".md":
        return adapted(text, source)
    # Files have no words that a reader would search for in a handbook.
    return f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n````{LANGUAGES[source.suffix]}\n{text}````\n"


def adapted(text: str, source: Path) -> str:
    """A page as Python-Markdown reads it: the links to files outside docs/, and the marks of fenced blocks."""
    parts: list[str] = []
    end = 0
    for block in FENCE.finditer(text):
        title = f' title="{block[2]}"' if PurePosixPath(block[2]).suffix else ""
        parts += [_linked(text[end : block.start()], source), f"```{block[1]}{title}\n{block[3]}```"]
        end = block.end()
    return "".join((*parts, _linked(text[end:], source)))


def _linked(prose: str, source: Path) -> str:
    """Prose whose links lead to where the site has their files."""

    def replaced(match: re.Match[str]) -> str:
        led = target(source, match[1])
        if led is None or not (led.is_dir() or led.suffix in LANGUAGES):
            return match[0]
        fragment = match[1].partition("#")[1:]
        return f"]({between(source, led)}{''.join(fragment)})"

    anchored = re.sub(r"^(#+ )(.+)$", lambda head: f"{head[0]} {{#{anchor(head[2])}}}", prose, flags=re.MULTILINE)
    return re.sub(r"\]\(([^)\s]+)\)", replaced, anchored)


def anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading; gateway.settings.reference has it too, but is not installed here."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def between(source: Path, led: Path) -> str:
    """The link from the page of one file to the page of another."""
    return os.path.relpath(place(led), place(source).parent)
