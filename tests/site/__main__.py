"""`python -m tests.site FOLDER VERSION`: builds one version of the site into a folder; fails if anything is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.site import checking, staging, versions

COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # Zensical asks nobody whether they are wanted


def main(folder: str, version: str) -> int:
    if not versions.VERSION.fullmatch(version):
        print(f"{version!r} cannot be the name of a version.", file=sys.stderr)
        return 2
    site = Path(folder)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        staging.stage(work)
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "zensical.toml"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            print(COLOURS.sub("", f"{done.stdout}\n{done.stderr}"), file=sys.stderr)
            return 1
        built = work / "built"
        (built / "404.html").unlink()  # its links are those of a site at the root of its host
        wrong = [*checking.problems(built), *(f"{page}: is missing" for page in missing(built))]
        if wrong:
            print(*wrong, sep="\n", file=sys.stderr)
            return 1
        shutil.rmtree(site / version, ignore_errors=True)
        shutil.copytree(built, site / version)
    versions.write(site)
    pages = len(list((site / version).rglob("*.html")))
    print(f"{site / version}: {pages} pages; to read: python3 -m http.server --directory {site}")
    return 0


def missing(site: Path) -> list[str]:
    """The pages of the handbook that the site lacks."""
    names = ["index.html" if name == "README.md" else name.replace(".md", ".html") for name in staging.order()]
    return [name for name in names if not (site / name).is_file()]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
