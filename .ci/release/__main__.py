"""`python -m release`, where `.ci` is in the path of modules: builds a release into `dist/` and says what is in it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gateway import __version__
from release import chart, distributions, notes, sbom
from release.tools import CHECKOUT, FailedError, MissingError, Release, copy_checkout, digest, git

DIST = CHECKOUT / "dist"
SUMS = "SHA256SUMS"


def main() -> int:
    words = argparse.ArgumentParser(prog="make release", description="Builds a release into dist/, and tries it.")
    words.add_argument("--complete", action="store_true", help="fail where anything is left out or is a stand-in")
    words.add_argument(
        "--base", choices=("registry", "stand-in"), default="stand-in", help="where the base image is from"
    )
    words.add_argument("--without-image", action="store_true", help="leave the image out")
    words.add_argument("--tag", help="fail unless this is the tag of the version")
    given = words.parse_args()
    try:
        epoch = int(os.environ.pop("SOURCE_DATE_EPOCH", "") or git("log", "-1", "--format=%ct"))
    except (MissingError, FailedError) as exc:
        sys.exit(f"SOURCE_DATE_EPOCH is not set, and git does not tell the time of the last change: {exc}")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory(prefix="toolgate-release-") as folder:
        work = Path(folder)
        release = Release(__version__, epoch, DIST, work / "copy", work)
        ended = _all(release, given)
    print(f"\nToolgate {__version__}, as of {epoch} seconds since 1970:")
    for how, lines in ended.items():
        print(*(f"  {how}: {line}" for line in lines), sep="\n", end="\n" if lines else "")
    return 1 if ended["FAILED"] or (given.complete and ended["left out"]) else 0


def _all(release: Release, given: argparse.Namespace) -> dict[str, list[str]]:
    """Takes every step, also after one that failed. Gives what was made, what was left out, and what failed."""

    def image() -> str:
        if given.without_image:
            raise MissingError("--without-image was given")
        from release import image  # with it come the programs of the tests of deployment

        made = image.build(release, stand_in=given.base == "stand-in")
        if given.base == "stand-in":
            ended["left out"].append("the image on its real base: ask for it by RELEASE=--base=registry")
        return made

    first: dict[str, Callable[[], str]] = {
        "the state of the checkout": lambda: _state(given.tag),
        "the copy of the checkout": lambda: _copy(release),
        "the notes": lambda: notes.write(release),
    }
    steps: dict[str, Callable[[], str]] = {
        "wheels and sdists": lambda: distributions.build(release),
        "the chart": lambda: chart.build(release),
    }
    last: dict[str, Callable[[], str]] = {
        "the bill of materials": lambda: sbom.build(release),  # of what the image has
        "the sums": lambda: _sum(release.dist),
    }
    ended: dict[str, list[str]] = {"made": [], "left out": [], "FAILED": []}

    def take(name: str, step: Callable[[], str]) -> None:
        print(f"== {name}", flush=True)
        try:
            ended["made"].append(step())
        except MissingError as exc:
            ended["left out"].append(f"{name}: {exc}")
        except FailedError as exc:
            ended["FAILED"].append(f"{name}: {exc}")

    for name, step in first.items():
        take(name, step)
    with ThreadPoolExecutor() as pool:  # the image takes as long as everything else
        beside = pool.submit(take, "the image", image)
        for name, step in steps.items():
            take(name, step)
        beside.result()
    for name, step in last.items():
        take(name, step)
    return ended


def _state(tag: str | None) -> str:
    if tag not in (None, f"v{__version__}"):
        raise FailedError(f"the tag {tag} is not v{__version__}")
    if git("status", "--porcelain"):
        raise MissingError("there are changes that are not committed, and they are in what is built")
    return f"everything of the commit {git('rev-parse', 'HEAD')}"


def _copy(release: Release) -> str:
    copy_checkout(release.copy)
    return "a copy of the checkout, to build everything a second time"


def _sum(dist: Path) -> str:
    files = sorted(file for file in dist.iterdir() if file.name != SUMS)
    (dist / SUMS).write_text("".join(f"{digest(file)}  {file.name}\n" for file in files), "utf-8")
    return f"{SUMS}, of {len(files)} files"


if __name__ == "__main__":
    sys.exit(main())
