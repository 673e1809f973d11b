"""`toolgate tools` and `toolgate call` against a running gateway: what goes where, and with which exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.authority import Authority
from tests.support.demonstration import Demo
from tests.support.terminal import DEADLINE_S, TOOLGATE, entered, environment, running, toolgate


def test_tools_are_a_table_and_for_a_program_the_catalogue_itself(demo: Demo) -> None:
    done = entered("tools", *demo.options)
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["TOOL", "INPUT", "NEEDS", "DESCRIPTION"]
    assert re.search(r"^Calculator\.Add@1\.1\.0 +a b \[terms\] +- +\S", done.stdout, re.MULTILINE)
    assert (len(rows), done.stderr) == (28, "")
    items = json.loads(entered("tools", "--json", *demo.options).stdout)["items"]
    assert {"Calculator.Add@1.0.0", "Mail.Search@1.0.0"} <= {item["id"] for item in items}


def test_a_call_prints_its_value_and_nothing_else(demo: Demo) -> None:
    done = toolgate("call", "Calculator.Add", "a=2", "b=40", env=demo.env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


def test_text_is_printed_as_it_is_and_options_may_stand_anywhere(demo: Demo) -> None:
    done = entered("call", "Text.Echo", "--call-id", "mine", "value=grüß dich", *demo.options)
    assert (done.returncode, done.stdout) == (0, "grüß dich\n")


def test_arguments_may_come_from_standard_input_and_be_completed(demo: Demo) -> None:
    done = toolgate("call", "Calculator.Add", "--input", "-", "b=40", env=demo.env, stdin='{"a": 2, "b": 1}')
    assert (done.returncode, done.stdout) == (0, "42\n")


def test_a_program_gets_the_whole_answer(demo: Demo) -> None:
    done = entered("call", "Calculator.Add", "--json", "a=2", "b=40", "--call-id", "sum", *demo.options)
    answer = json.loads(done.stdout)
    assert (answer["call_id"], answer["success"], answer["value"]) == ("sum", True, 42)


def test_a_tool_that_fails_says_why_on_standard_error_and_exits_1(demo: Demo) -> None:
    words = ("call", "Doorbell.Ring", "doorbell_id=none", *demo.options)
    done = entered(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Doorbell ID not found\n  ids: doorbell42,doorbell84\nIt may be called again in 0.5 s.\n"
    for_a_program = entered(*words, "--json")
    assert (for_a_program.returncode, json.loads(for_a_program.stdout)["error"]["can_retry"]) == (1, True)


def test_wrong_input_names_each_parameter_and_exits_2(demo: Demo) -> None:
    words = ("call", "Calculator.Add", "a=x", *demo.options)
    done = entered(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "\n  a: " in done.stderr
    assert "\n  b: " in done.stderr
    for_a_program = entered(*words, "--json")
    assert (for_a_program.returncode, set(json.loads(for_a_program.stdout)["parameter_errors"])) == (2, {"a", "b"})
    hinted = entered("call", "Doorbell.Ring", "doorbell_id=12", *demo.options)
    assert hinted.stderr.endswith("""are read as JSON: '"12"' is the text 12.\n""")


@pytest.mark.parametrize(
    ("tool", "hint"),
    [
        ("Calculater.Ad", "Did you mean Calculator.Add or Calculator.Divide?"),
        ("Qwertz.Uiop", "`toolgate tools` lists all tools."),
        ("Calculator.Add@7.0.0", "Its newest versions are 1.1.0, 1.0.0."),
    ],
)
def test_an_unknown_tool_gets_a_hint(demo: Demo, tool: str, hint: str) -> None:
    done = entered("call", tool, *demo.options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == hint


def test_a_missing_secret_is_asked_for_and_may_come_from_the_environment(demo: Demo) -> None:
    words = ("call", "Sms.Send", "to=+4712345678", "text=hello")
    done = entered(*words, *demo.options)
    assert done.returncode == 2
    assert "  Give --secret SMS_API_KEY=VALUE." in done.stderr
    given = toolgate(*words, "--secret", "SMS_API_KEY", env=demo.env | {"SMS_API_KEY": "any"})
    assert (given.returncode, json.loads(given.stdout)["status"]) == (0, "queued")


def test_a_missing_user_is_asked_for(demo: Demo) -> None:
    done = entered("call", "Notes.List", *demo.options)
    assert done.returncode == 2
    assert "  Give --user-id ID." in done.stderr
    assert entered("call", "Notes.List", "--user-id", "u", *demo.options).stdout == "[]\n"


def test_a_token_of_the_provider_is_passed_on(demo: Demo) -> None:
    words = ("call", "Mail.Search", "query=lunch", "--user-id", "u", "--authorization", "demo-mail=demo-token")
    assert '"Lunch on Friday?"' in entered(*words, *demo.options).stdout


def test_a_challenge_prints_where_to_go(demo: Demo) -> None:
    done = entered("call", "Mail.Search", "query=x", "--user-id", "u1", *demo.options)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"^  Open http://127\.0\.0\.1:\d+/connect/\S+$", done.stderr, re.MULTILINE)


def decide(url: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=DEADLINE_S).close()


def test_with_wait_it_ends_when_the_user_declines(demo: Demo) -> None:
    words = (*TOOLGATE, "call", "Mail.Search", "query=lunch", "--user-id", "u3", "--wait")
    with running(words, env=demo.env) as command:
        url = command.wait_for("/connect/").strip()
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            decide(f"{url}/decline")
        refused.value.close()
        assert command.ended() == 2
    assert command.err.decode().splitlines()[-1] == "The consent was declined, or it took too long."


def test_without_a_token_it_says_how_to_get_one(demo: Demo) -> None:
    done = entered("tools", "--url", demo.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Put your API key or bearer token in TOOLGATE_TOKEN" in done.stderr


def test_a_token_that_is_refused_is_not_repeated(demo: Demo) -> None:
    done = entered("call", "Calculator.Add", "--url", demo.url, "--token", "canary.canary.canary")
    assert done.returncode == 2
    assert done.stderr.startswith("The gateway does not accept the token; it may have expired.\n")
    assert "canary" not in done.stderr


def test_where_no_gateway_is_it_says_so_and_exits_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = entered("tools", "--url", f"http://127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"No gateway answers: http://127.0.0.1:{port} cannot be reached.")


def test_an_unknown_authority_is_distinguished_from_a_missing_gateway(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("127.0.0.1")
    file = tmp_path / "gateway.yaml"
    file.write_text(f"server: {{port: 0, admin: {{port: 0}}, tls: {{cert: {cert}, key: {key}}}}}\nauth: none\n")
    with running([*TOOLGATE, "serve", "-c", str(file)]) as command:
        line = command.wait_for('"message":"listening"')
        (address,) = re.findall(r'"public":"([^"]+)"', line)
        words = ("tools", "--url", f"https://{address}")
        refused = entered(*words)
        trusting = toolgate(*words, env={"SSL_CERT_FILE": authority.path})
    assert refused.returncode == 3
    assert refused.stderr.startswith(f"The TLS handshake with https://{address} failed: ")
    assert "SSL_CERT_FILE" in refused.stderr
    assert trusting.returncode == 0


def test_something_else_that_answers_is_no_gateway(demo: Demo) -> None:
    done = entered("tools", "--url", f"{demo.url}/openapi.json?")
    assert done.returncode == 3
    assert "is not a gateway" in done.stderr


def test_a_gateway_that_breaks_off_is_distinguished_from_a_missing_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = (*TOOLGATE, "call", "Any.Tool", "--url", f"http://127.0.0.1:{listener.getsockname()[1]}")
        with running(words) as command:
            listener.settimeout(DEADLINE_S)
            connection, _ = listener.accept()
            connection.settimeout(DEADLINE_S)
            connection.recv(65536)
            connection.close()
            assert command.ended() == 3
    assert b"its tool may have run" in command.err


def test_a_reader_that_has_enough_is_no_reason_for_a_traceback(demo: Demo) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [*TOOLGATE, "tools"],
            env=environment(**demo.env),
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("place", ["/dev/full", None])
@pytest.mark.parametrize("words", [["call", "Calculator.Add", "a=2", "b=40"], ["tools"], ["--version"]])
def test_an_output_that_cannot_be_written_is_reported_in_a_sentence(
    words: list[str], place: str | None, demo: Demo
) -> None:
    """`place` None: closed by who started the command."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" >{place or "&-"}', "sh", *TOOLGATE, *words],
        env=environment(**demo.env),
        stderr=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    why, *how = done.stderr.splitlines()
    assert (done.returncode, why.partition(":")[0]) == (1, "Standard output cannot be written")
    assert len(how) == (words[0] == "call")
    assert all(re.fullmatch(r"For its result repeat .* --call-id \w{16}", line) for line in how)


def on_a_terminal(words: list[str], env: dict[str, str], react: Callable[[str], object] = len) -> str:
    """What a command shows on a terminal; `react` is called with all of it each time there is more."""
    main, terminal = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "gateway", *words], env=env, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown, deadline = b"", time.monotonic() + DEADLINE_S
    try:
        while select.select([main], [], [], max(0.0, deadline - time.monotonic()))[0]:
            shown += os.read(main, 65536)
            react(shown.decode())
    except OSError:  # no process has the terminal open any more
        pass
    finally:
        os.close(main)
        process.kill()
        process.wait(DEADLINE_S)
    return shown.decode()


def test_on_a_terminal_the_table_fits_and_a_value_cannot_steer_it(demo: Demo) -> None:
    env = environment(**demo.env, COLUMNS="90")
    lines = on_a_terminal(["tools"], env).splitlines()
    assert max(map(len, lines)) == 90
    assert any(line.endswith("...") for line in lines)
    shown = on_a_terminal(["call", "Text.Echo", r'value="\u001b[2J gone"'], env)
    assert shown.splitlines() == [r"\x1b[2J gone"]


def test_on_a_terminal_it_waits_for_consent_unasked(demo: Demo) -> None:
    pages: set[str] = set()

    def consent(shown: str) -> None:
        for page in re.findall(r"(http://\S+/connect/\S+)\r\n", shown):
            if page not in pages:
                pages.add(page)
                decide(page)

    words = ["call", "Mail.Search", "query=lunch", "--user-id", "u5"]
    assert '"Lunch on Friday?"' in on_a_terminal(words, environment(**demo.env), consent)
    assert len(pages) == 1


def test_a_value_that_the_terminal_cannot_show_is_escaped(demo: Demo) -> None:
    done = toolgate("call", "Text.Echo", "value=grüß", env=demo.env | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout) == (0, "gr\\xfc\\xdf\n")
