"""What of a new configuration takes effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.assembly.generation import keep_or_make, with_fixed
from gateway.configfile.web import FilePath
from gateway.core.errors import ConfigError
from gateway.settings.load import read

CALLS_BACK = "backends: {builds: {protocol: callback, url: 'http://127.0.0.1:1'}}"


def test_what_takes_a_start_is_named_and_stays_and_the_rest_is_new(caplog: pytest.LogCaptureFixture) -> None:
    running = read("server: {host: 0.0.0.0, port: 1, max_body: 1KiB}\nauth: none\n")
    again = read("server: {host: 127.0.0.1, port: 2, admin: {port: 3}, max_body: 2KiB}\nauth: none\nstate: {}\n")
    now = with_fixed(again, running)
    assert (now.server.host, now.server.port, now.server.max_body_bytes) == ("0.0.0.0", 1, 2048)
    assert (now.server.admin, now.state) == (running.server.admin, None)
    (record,) = caplog.records
    assert record.getMessage() == "a change takes effect only at the next start"
    assert vars(record)["keys"] == ["server.host", "server.port", "server.admin.port", "state"]


def test_what_is_good_only_at_the_next_start_is_refused() -> None:
    """It says where to call back by the address it will listen on, not by the one it listens on now."""
    running = read("server: {host: 0.0.0.0}\nauth: none\n")
    again = read(f"server: {{host: 127.0.0.1}}\nauth: none\n{CALLS_BACK}\n")
    with pytest.raises(ConfigError, match=r"callback_url or public_url.*before the next start it cannot be used"):
        with_fixed(again, running)
    addressed = read(f"server: {{host: 127.0.0.1, callback_url: 'http://gateway.example'}}\nauth: none\n{CALLS_BACK}\n")
    assert with_fixed(addressed, running).backends == addressed.backends


def test_a_part_is_made_anew_when_its_settings_or_their_files_have_changed(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("one")
    before = keep_or_make(None, ("settings", FilePath(file)), object)
    assert keep_or_make(before, ("settings", FilePath(file)), object) is before
    assert keep_or_make(before, ("others", FilePath(file)), object) is not before
    file.write_text("another")
    assert keep_or_make(before, ("settings", FilePath(file)), object) is not before
