"""The words a user types: wrong ones get a sentence that says what to do, and nothing secret is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import __version__
from gateway.__main__ import main
from gateway.cli.program import COMMANDS

Captured = pytest.CaptureFixture[str]
NOWHERE = ("--url", "http://127.0.0.1:1")  # port 1 is nobody's: what gets that far exits with 3


def refused(capsys: Captured, *words: str) -> list[str]:
    """The lines on standard error of a command that is used wrongly."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_without_a_command_it_lists_them(capsys: Captured) -> None:
    lines = refused(capsys)
    assert lines[0] == "usage: toolgate COMMAND ..."
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in COMMANDS)


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_that_was_asked_for_is_output(capsys: Captured, word: str) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("usage: toolgate COMMAND ...")


def test_the_version_is_one_line(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"toolgate {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(capsys: Captured, name: str) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: toolgate {name} ")


WRONG = [
    (["chek"], "toolgate: there is no command 'chek'; did you mean 'check'?"),
    (["xyz"], "toolgate: there is no command 'xyz'; toolgate --help lists the commands."),
    (["--verbose"], "toolgate: there is no option '--verbose'; toolgate --help lists the commands."),
    (["check", "--lvie"], "toolgate check: there is no option --lvie; did you mean '--live'?"),
    (["check", "--zzz"], "toolgate check: there is no option --zzz."),
    (["check", "--liv"], "toolgate check: there is no option --liv; did you mean '--live'?"),
    (["check", "a", "b"], "toolgate check: there is a word too many."),
    (["demo", "--port", "web"], "toolgate demo: argument --port: must be a number from 0 to 65535."),
    (["demo", "--port", "65536"], "toolgate demo: argument --port: must be a number from 0 to 65535."),
    (["token", "--ttl", "0"], "toolgate token: argument --ttl: must be a number of seconds, such as 3600."),
    (["token", "--ttl", "soon"], "toolgate token: argument --ttl: must be a number of seconds, such as 3600."),
    (
        ["call", "A.B", "--timeout", "0"],
        "toolgate call: argument --timeout: must be a number of seconds, such as 3600.",
    ),
    (["call"], "toolgate call: the following arguments are required: TOOL."),
    (["call", "A.B", "a"], "An argument is not of the form key=value."),
    (["call", "A.B", "=1"], "An argument is not of the form key=value."),
    (["call", "A.B", "--authorization", "x"], "An argument is not of the form --authorization ID=TOKEN."),
    (["call", "A.B", "--secret", "="], "An argument is not of the form --secret ID=VALUE."),
    (["call", "A.B", "--input", "{"], "--input is not JSON: "),
    (["call", "A.B", "--input", "[1]"], "--input must be a JSON object."),
    (["call", "A.B", "a=\udcff", *NOWHERE], "An argument is not valid UTF-8 text."),
    (
        ["tools", "--url", "localhost"],
        "'localhost' is not the URL of a gateway: it must begin with http:// or https://.",
    ),
    (["tools", "--url", "http://[::"], "'http://[::/tools' is not a URL: "),
    (["tools", "--token", "two words", *NOWHERE], "This is not a bearer token: it has spaces or other odd characters."),
    (["serve", "-c", "/none.yaml"], "/none.yaml: there is no such file; `toolgate init` writes one"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_word_gets_a_sentence(capsys: Captured, words: list[str], sentence: str) -> None:
    assert refused(capsys, *words)[0].startswith(sentence)


@pytest.mark.parametrize(
    "words",
    [
        ["tools", "--tokn=canary"],
        ["tools", "--token", "canary canary"],
        ["tools", "canary"],
        ["call", "A.B", "canary"],
        ["call", "A.B", "--secret", "canary"],
        ["call", "A.B", "--authorization", "canary"],
        ["call", "A.B", "--secrt", "ID=canary"],
    ],
    ids=" ".join,
)
def test_what_may_be_a_secret_is_not_repeated(capsys: Captured, words: list[str]) -> None:
    assert "canary" not in "".join(refused(capsys, *words))


def test_a_directory_is_no_configuration(capsys: Captured, tmp_path: Path) -> None:
    assert refused(capsys, "check", str(tmp_path)) == [f"{tmp_path}: cannot be read: Is a directory"]


def test_a_token_that_the_gateway_would_refuse_is_not_made(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(f"auth: {{jwt: [{{secret: {'s' * 32}, max_lifetime: 10m}}]}}")
    assert refused(capsys, "token", "-c", str(path)) == [
        "This gateway refuses tokens for more than 600 s (max_lifetime)."
    ]
    assert main(["token", "-c", str(path), "--ttl", "600"]) == 0
