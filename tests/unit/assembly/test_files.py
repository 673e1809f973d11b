"""Which files a configuration names, and how a changed file is noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gateway.assembly.files import fingerprints, named_files
from gateway.settings.load import read
from tests.support.authority import Authority


def test_every_file_that_is_named_by_its_path_is_found(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("127.0.0.1")
    tls = {"ca": authority.path, "cert": cert, "key": key}
    config = {
        "auth": "none",
        "server": {"tls": {"cert": cert, "key": key}},
        "state": {"url": "rediss://127.0.0.1/0", "tls": tls},
        "backends": {"crm": {"protocol": "oxp", "url": "https://127.0.0.1", "tls": tls}},
    }
    found = read(json.dumps(config))
    assert set(named_files(found)) == {authority.path, cert, key}
    assert list(named_files(found.backends["crm"])) == [authority.path, cert, key]
    assert list(named_files(read("auth: none"))) == []


@pytest.mark.parametrize("change", ["written", "replaced", "removed"])
def test_a_change_of_any_kind_shows(tmp_path: Path, change: str) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    os.utime(path, ns=(1, 1))
    before = fingerprints([str(path)])
    assert fingerprints([str(path)]) == before
    match change:
        case "written":
            path.write_text("four")
        case "replaced":
            other = tmp_path / "other"
            other.write_text("two")
            os.utime(other, ns=(1, 1))
            os.replace(other, path)
        case "removed":
            path.unlink()
    assert fingerprints([str(path)]) != before


def test_what_is_no_path_has_no_fingerprint() -> None:
    assert fingerprints(["a\0b", "/nowhere/at/all"]) == {"a\0b": None, "/nowhere/at/all": None}
