"""Signals that come while a command is still being imported, which takes it longer than anything else it does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.terminal import finished

# Sends the process a signal when the module is looked for, and then is what the command `toolgate` is.
PROGRAM = """
import os, signal, sys

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), int(number))

_, number, module, *words = sys.argv
sys.meta_path.insert(0, Signalling())
sys.argv = ["toolgate", *words]
from gateway.__main__ import main
sys.exit(main())
"""


def signalled(
    number: signal.Signals, module: str, *words: str, ignoring: signal.Signals | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command that gets the signal when it imports the module."""

    def begin() -> None:
        for each in (signal.SIGINT, signal.SIGHUP):  # whatever these tests were started with, such as nohup
            signal.signal(each, signal.SIG_IGN if each is ignoring else signal.SIG_DFL)

    return finished([sys.executable, "-W", "error", "-c", PROGRAM, str(int(number)), module, *words], first=begin)


@pytest.mark.parametrize("module", ["gateway.cli.program", "gateway.settings.load"])
def test_control_c_ends_a_command_that_is_being_imported_without_a_word(module: str) -> None:
    done = signalled(signal.SIGINT, module, "check", "nowhere.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_command_started_with_ctrl_c_ignored_goes_on(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text("auth: none\n")
    done = signalled(signal.SIGINT, "gateway.settings.load", "check", str(config), ignoring=signal.SIGINT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["gateway.cli.program", "gateway.app"])
def test_a_hangup_before_the_file_is_read_does_not_end_a_gateway(module: str, tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text("auth: none\nsurver: {}\n")  # it got as far as reading it, and no farther
    done = signalled(signal.SIGHUP, module, "serve", "-c", str(config))
    assert done.returncode == 2
    assert "surver: is not a known key" in done.stderr


def test_a_hangup_ends_any_other_command() -> None:
    done = signalled(signal.SIGHUP, "gateway.settings.load", "check", "nowhere.yaml")
    assert done.returncode == -signal.SIGHUP
