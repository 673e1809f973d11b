"""Backends as they are configured: their class, their replicas, their limits, and the routes to them."""

from __future__ import annotations

from pydantic import SecretStr

from gateway.config import read
from gateway.settings import BearerAuthSettings, HttpBackendSettings, JwtAuthSettings
from gateway.settings.backends import OxpBackendSettings
from tests.unit.configured import BACKENDS, CANARY, ENV, problems


def test_a_backend_is_of_the_class_its_protocol_names() -> None:
    text = BACKENDS + (
        "  mail: {protocol: oxp, url: http://x/, dialect: oxp-env, auth: {bearer: '${env:SECRET}'}}\n"
        "  pay: {protocol: otc, url: http://x/, auth: {jwt: {secret: '${env:SECRET}'}},"
        " forward_headers: [X-Tenant]}\n"
    )
    backends = read(text, env=ENV).backends
    mail, pay = backends["mail"], backends["pay"]
    assert isinstance(mail, OxpBackendSettings)
    assert (mail.url, mail.dialect) == ("http://x", "oxp-env")
    assert mail.auth == BearerAuthSettings(bearer=SecretStr(CANARY))
    assert isinstance(pay, HttpBackendSettings)
    assert isinstance(pay.auth, JwtAuthSettings)
    assert (pay.auth.jwt.subject, pay.auth.jwt.ttl_s) == ("principal", 60.0)
    assert pay.forward_headers == ("x-tenant",)


def test_a_backend_is_at_one_url_or_several_and_has_limits_of_its_own() -> None:
    text = BACKENDS + (
        "  farm: {protocol: oxp, urls: [http://a/, 'http://b/x'], max_concurrency: 7, max_queue: 0, queue_timeout: 1s,"
        " breaker: {failures: 0, open_for: 500ms}}\n"
    )
    backends = read(text, env=ENV).backends
    crm, farm = backends["crm"], backends["farm"]
    assert (crm.addresses, farm.addresses) == (("http://127.0.0.1:9101",), ("http://a", "http://b/x"))
    assert (crm.max_concurrency, crm.max_queue, crm.queue_timeout_s) == (256, 1024, 10.0)
    assert (crm.breaker.failures, crm.breaker.open_for_s) == (5, 10.0)
    assert (farm.max_concurrency, farm.max_queue, farm.queue_timeout_s) == (7, 0, 1.0)
    assert (farm.breaker.failures, farm.breaker.open_for_s) == (0, 0.5)


def test_replicas_in_variables_that_are_not_set_are_not_taken_for_one() -> None:
    text = BACKENDS + "  farm: {protocol: oxp, urls: ['${env:ONE}', '${env:TWO}']}\n"
    assert len(read(text, env={}, allow_missing_env=True).backends["farm"].addresses) == 2


def test_there_are_only_so_many_replicas() -> None:
    urls = [f"http://{number}.example" for number in range(40)]
    (problem,) = problems(f"{BACKENDS}  farm: {{protocol: oxp, urls: {urls}}}\n")
    assert problem.endswith("backends.farm.urls[32]: is one too many; there may be 32")


def test_a_route_carries_what_it_gives_to_its_tools() -> None:
    text = BACKENDS + (
        "routes:\n"
        "  - tools: Mail.Send@1.*\n"
        "    backend: crm\n"
        "    timeout: 100ms\n"
        "    secrets: {SMTP_KEY: '${env:SECRET}'}\n"
        "    authorization_urls: {google: 'https://a.example/?p=1', dev: 'http://localhost:1/x'}\n"
    )
    (route,) = read(text, env=ENV).routes
    assert (route.timeout_s, route.validate_output) == (0.1, "warn")
    assert route.secrets["SMTP_KEY"].get_secret_value() == CANARY
    assert dict(route.authorization_urls) == {"google": "https://a.example/?p=1", "dev": "http://localhost:1/x"}


def test_same_pattern_for_two_backends_or_after_a_narrower_one_is_reached() -> None:
    text = BACKENDS + "  b: {protocol: oxp, url: http://x}\nroutes:\n"
    pairs = [("A.*", "crm"), ("A.*", "b"), ("*", "crm"), ("*", "b")]
    routes = "".join(f"  - {{tools: '{tools}', backend: {backend}}}\n" for tools, backend in pairs)
    assert [(route.tools, route.backend) for route in read(text + routes).routes] == pairs
