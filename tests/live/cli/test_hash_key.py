"""`toolgate hash-key`: an API key in, what the configuration keeps of it out."""

from __future__ import annotations

import hashlib
import os
import pty
import subprocess
from io import BytesIO, TextIOWrapper

import pytest

from gateway.cli.hash_key import LONGEST, SHORTEST, hashed, read_key
from gateway.cli.output import USAGE, CommandError
from gateway.settings.load import read
from tests.support.terminal import DEADLINE_S, ROOT, TOOLGATE, entered, environment, toolgate

KEY = "an-api-key-that-nobody-can-guess"
HASH = f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"


def test_a_key_on_standard_input_comes_out_as_its_hash() -> None:
    done = toolgate("hash-key", stdin=f"{KEY}\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{HASH}\n", "")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_end_of_the_line_is_not_part_of_the_key(end: str) -> None:
    assert read_key(TextIOWrapper(BytesIO(f"{KEY}{end}".encode()))) == KEY


def test_what_it_prints_is_what_a_configuration_takes() -> None:
    auth = read(f"auth: {{api_keys: [{{id: a, hash: '{hashed(KEY)}'}}]}}\n").auth
    assert auth is not None
    assert auth.api_keys is not None
    assert auth.api_keys[0].hash == hashlib.sha256(KEY.encode()).digest()


def test_a_key_that_is_typed_is_not_shown() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*TOOLGATE, "hash-key"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
        start_new_session=True,  # without a terminal of its own but the one it is given
    ) as process:
        assert process.stderr is not None
        while not process.stderr.read(1).endswith(b":"):  # it asks, and shows nothing from now on
            assert process.poll() is None
        os.write(ours, f"{KEY}\n".encode())
        out, _ = process.communicate(timeout=DEADLINE_S)
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        shown = os.read(ours, 65536)
    except OSError:  # nothing at all
        shown = b""
    os.close(ours)
    assert (process.returncode, out.decode()) == (0, f"{HASH}\n")
    assert KEY.encode() not in shown


@pytest.mark.parametrize(
    "given",
    [
        *(b"", b"\n", b"x" * (SHORTEST - 1), b"x" * (LONGEST + 1), b"\xff" * 30),
        *(f"{KEY} ".encode(), f" {KEY}".encode(), f"{KEY}\n{KEY}\n".encode(), f"{KEY}\n\n".encode()),
    ],
    ids=lambda given: ascii(given)[-12:],
)
def test_bad_keys_are_refused_without_being_shown(given: bytes) -> None:
    with pytest.raises(CommandError, match=r"^A key must ") as caught:
        hashed(read_key(TextIOWrapper(BytesIO(given))))
    assert caught.value.code == USAGE
    assert KEY not in str(caught.value)


def test_a_key_on_the_command_line_is_refused_and_not_repeated() -> None:
    done = entered("hash-key", KEY)
    assert (done.returncode, done.stdout) == (2, "")
    assert KEY not in done.stderr
    assert done.stderr.splitlines()[-1] == "Run toolgate hash-key alone, and type the key or pipe it in."
