"""What `make test-console` installs and what Debian has: the browser, and the judge of accessibility."""

from __future__ import annotations

import shutil

import pytest

from tests.support.terminal import ROOT

ENVIRONMENT = ROOT / ".venvs/console"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser() -> str:
    """The program of the browser; skips the test when there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("There is no browser: install chromium, as by `apt-get install chromium`.")
    return found


def axe() -> str:
    """The source of axe-core; fails the test when it is not there."""
    file = ENVIRONMENT / "node_modules/axe-core/axe.min.js"
    if not file.exists():
        pytest.fail(f"{file.relative_to(ROOT)} is missing; `make test-console` installs it.", pytrace=False)
    return file.read_text("utf-8")
