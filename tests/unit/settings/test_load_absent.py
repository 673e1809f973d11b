"""With `allow_missing_env` a file is good if it is good for some values of the variables that are not set."""

from __future__ import annotations

import pytest

from gateway.core.errors import ConfigError
from gateway.settings.load import read
from gateway.settings.warnings import warnings

ISSUER = "issuer: 'https://a.example', audience: [toolgate], algorithms: [RS256]"
STATE = "auth: none\nstate: {tls: {ca: '${env:A}', cert: '${env:A}', key: '${env:A}'}, keys: ['${env:A}'], "
BUILDS = "auth: none\nbackends: {builds: {protocol: callback, url: 'http://127.0.0.1:9103', "


@pytest.mark.parametrize(
    "text",
    [
        "auth: {jwt: [{issuer: '${env:A}', discovery: true, audience: [toolgate], algorithms: [RS256]}]}",
        "auth: {jwt: [{issuer: a, jwks_url: '${env:A}', audience: ['${env:B}'], algorithms: ['${env:C}']}]}",
        "auth: {jwt: [{secret: '${env:A}', require: [exp, sub, '${env:B}']}]}",
        "auth: none\nserver: {trusted_proxies: ['${env:A}', '${env:B}', 192.0.2.0/24]}",
        "auth: none\nrate_limits: [{name: a, key: '${env:A}', rate: 1/s, operations: [failed_verification]}]",
        BUILDS + "allowed_origins: ['${env:A}', '${env:B}']}}",
        "auth: none\nbackends: {a: {protocol: oxp, url: '${env:A}', tls: {ca: '${env:B}'}, auth: {bearer: any}}}",
        "auth: none\nbackends: {farm: {protocol: oxp, urls: ['${env:ONE}', '${env:TWO}']}}",
        f"{STATE}url: '${{env:A}}', sentinel_password: '${{env:A}}'}}",
        f"{STATE}url: 'rediss+sentinel://:${{env:A}}@one,two/calls', sentinel_password: '${{env:A}}'}}",
    ],
)
def test_what_is_not_known_is_not_held_against_the_rest(text: str) -> None:
    config = read(f"{text}\n", env={}, allow_missing_env=True)
    assert not [warning for warning in warnings(config) if "missing.invalid" in warning]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f"auth: {{jwt: [{{secret: '${{env:A}}', jwks_url: 'https://a.example/k', {ISSUER}}}]}}",
            "must have exactly one",
        ),
        ("auth: {jwt: [{secret: '${env:A}', require: ['${env:B}', exp, exp, sub]}]}", "is in the list already"),
        ("auth: {jwt: [{secret: '${env:A}', require: [exp]}]}", "must also list sub"),
        ("auth: {jwt: [{issuer: '${env:A}', jwks_url: 'https://a.example/k', audience: [a]}]}", "needs algorithms"),
        (BUILDS + "tls: {ca: '${env:A}'}}}", "has no effect unless"),
        ("auth: none\nstate: {url: 'redis://:${env:A}@elsewhere', keys: ['${env:A}']}", "must begin with rediss"),
    ],
)
def test_what_is_wrong_whatever_they_are_is_reported(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read(f"{text}\n", env={}, allow_missing_env=True)
