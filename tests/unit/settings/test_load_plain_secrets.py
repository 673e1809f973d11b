"""Secrets that stand in a configuration file itself: each gets a warning with its place, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings.load import load_with_warnings

IN_PLAIN_TEXT = "holds a secret in plain text; write ${env:NAME} or ${file:/path} in its place"
ONE = "auth: none\nbackends:\n  one: {protocol: %s, url: 'https://one.example', %s}\n"
SECRETS = [
    ("auth: {jwt: [{secret: a-secret-of-at-least-32-characters}]}\n", ["1:23: auth.jwt[0].secret"]),
    (ONE % ("oxp", "auth: {bearer: hunter2}"), ["3:67: backends.one.auth.bearer"]),
    (ONE % ("oxp", "auth: {bearer: '$${env:SECRET}'}"), ["3:67: backends.one.auth.bearer"]),  # no variable
    (
        "auth: none\nmetrics: {token: sixteen-of-these}\nstate:\n  keys:\n    - '${env:SECRET}'\n    - |\n"
        "      a second key of 32 characters or more\n  url: redis://me:hunter2@localhost\n",
        ["2:18: metrics.token", "6:7: state.keys[1]", "8:8: state.url"],
    ),
    (
        ONE % ("otc", "") + "routes:\n  - {tools: '*', backend: one, secrets: {SMTP_KEY: hunter2}}\n",
        ["5:52: routes[0].secrets.SMTP_KEY"],
    ),
    (
        ONE
        % (
            "openapi",
            "document: 'https://one.example/api.json?v=3&api_key=hunter2', auth: {schemes: {k: {basic: "
            "{user: me, password: hunter2}}}}",
        ),
        ["3:66: backends.one.document", "3:167: backends.one.auth.schemes.k.basic.password"],
    ),
]
ELSEWHERE = [
    "auth: {jwt: [{secret: '${env:SECRET}'}]}\n",
    "auth: {api_keys: [{id: one, hash: 'sha256:" + "5" * 64 + "'}]}\n",
    "auth: none\nstate: {url: 'redis://localhost:6379/0'}\n",
    "auth: none\nstate: {url: 'redis://:${env:SECRET}@localhost'}\n",
    ONE % ("otc", "auth: {header: {name: x-key, value: 'Token-${env:SECRET}'}}"),
    ONE % ("openapi", "document: 'https://one.example/api.json?keys=all&api_key=${env:SECRET}'"),
]


def warnings(text: str, folder: Path) -> list[str]:
    file = folder / "it.yaml"
    file.write_text(text)
    found = load_with_warnings(file, env={"SECRET": "a-variable-of-at-least-32-characters"}).warnings
    return [line.removeprefix(f"{file}:") for line in found]


@pytest.mark.parametrize(("text", "places"), SECRETS)
def test_a_secret_in_the_file_gets_a_warning_with_its_place(text: str, places: list[str], tmp_path: Path) -> None:
    assert warnings(text, tmp_path) == [f"{place}: {IN_PLAIN_TEXT}" for place in places]


@pytest.mark.parametrize("text", ELSEWHERE)
def test_what_comes_from_elsewhere_or_is_no_secret_gets_none(text: str, tmp_path: Path) -> None:
    assert warnings(text, tmp_path) == []
