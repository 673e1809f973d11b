"""Logging in to the public console: who gets in, who does not, and what they are told.

Spec: OpenID Connect Core 1.0, RFC 7636 (PKCE), RFC 9207. The rest is ours.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from gateway.http.accesslog import AccessLog
from tests.flow.gateways import config, running
from tests.flow.people import DONE, OWN_PAGE, SCOPE, URL, VISIT, Person, person_at, public_console
from tests.flow.watching import samples, watched
from tests.support.openid import OAUTH, Provider, openid_provider

pytestmark = pytest.mark.anyio

SESSION, ATTEMPT = "__Host-toolgate-console", "__Host-toolgate-console-login"
KEYS = {"keys": ["a key of the state, of 32 characters"]}


@pytest.fixture
async def provider(anyio_backend: object) -> AsyncIterator[Provider]:
    async with openid_provider() as running_provider:
        yield running_provider


@asynccontextmanager
async def somebody(provider: Provider, **options: Any) -> AsyncIterator[Person]:
    """A person at a gateway that has just started."""
    async with running(public_console(provider, **options)) as it, person_at(it.gateway) as person:
        yield person


def says(answer: httpx.Response, status: int, *words: str) -> None:
    """Asserts a page that says this, with a link to go on, and no session."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store"
    assert all(word in answer.text for word in words), answer.text
    assert 'href="../login' in answer.text
    assert not any(SESSION in line and "Max-Age=0" not in line for line in answer.headers.get_list("set-cookie"))


async def test_a_person_logs_in_and_out(provider: Provider) -> None:
    async with somebody(provider) as person:
        first = await person.browser.get("/console/", headers=VISIT)
        assert first.status_code == 200
        assert 'href="login"' in first.text
        assert provider.url in first.text
        assert (await person.session()).status_code == 401

        answer = await person.log_in()
        assert (answer.status_code, answer.headers["location"]) == (303, f"{URL}/console/")
        assert list(person.cookies) == [SESSION]
        session = await person.session()
        assert session.status_code == 200
        assert session.json()["principal"] == f"jwt:{provider.url}:ada"

        left = await person.browser.post("/console/api/logout", json={}, headers=OWN_PAGE)
        assert (left.status_code, left.json()) == (200, {})
        assert person.cookies == {}
        assert (await person.session()).status_code == 401


async def test_the_issuer_is_asked_with_all_that_protects_a_login(provider: Provider) -> None:
    async with somebody(provider, login={"resource": "https://tools.example.com/"}) as person:
        await person.log_in()
        await person.begin("?prompt=login")
        await person.log_in("?prompt=none")
    first, second = provider.asked
    assert first["scope"] == f"openid {SCOPE}"
    assert first["resource"] == "https://tools.example.com/"
    assert len(first["state"]) == len(first["nonce"]) == len(first["code_challenge"]) == 43
    assert {first[name] for name in ("state", "nonce", "code_challenge")}.isdisjoint(second.values())
    assert "prompt" not in second  # only ours may be asked for


async def test_cookies_are_for_this_host_and_this_browser_alone(provider: Provider) -> None:
    async with somebody(provider) as person:
        begun = await person.browser.get("/console/login", headers=VISIT)
        done = await person.log_in()
    cookies = [*begun.headers.get_list("set-cookie"), *done.headers.get_list("set-cookie")]
    assert len(cookies) == 3  # one begins, one is made, one is deleted
    for cookie in cookies:
        assert {"Path=/", "HttpOnly", "Secure", "SameSite=Lax"} <= set(cookie.split("; ")), cookie
        assert cookie.startswith("__Host-")
        assert "Domain" not in cookie


async def test_on_this_machine_plain_http_will_do(provider: Provider) -> None:
    url = "http://127.0.0.1:8080"
    provider.redirect_uri = url + DONE
    text = public_console(provider, url=url)
    async with running(text) as it, person_at(it.gateway, url) as person:
        assert (await person.log_in()).status_code == 303
        assert (await person.session()).status_code == 200
        assert list(person.cookies) == ["toolgate-console"]


@pytest.mark.parametrize("methods", [None, ["client_secret_basic"], ["client_secret_post", "none"]])
async def test_the_secret_of_the_client_is_sent_as_the_issuer_wants_it(
    provider: Provider, methods: list[str] | None
) -> None:
    """Spec: RFC 8414, section 2; RFC 6749, section 2.3.1."""
    provider.client_secret = "a: b/ö"
    provider.metadata = {} if methods is None else {"token_endpoint_auth_methods_supported": methods}
    async with somebody(provider, login={"client_secret": provider.client_secret}) as person:
        assert (await person.log_in()).status_code == 303
    [sent] = provider.exchanged
    assert (sent.header("authorization") is not None) == (methods != ["client_secret_post", "none"])


async def test_an_issuer_may_describe_itself_as_oauth_has_it(provider: Provider) -> None:
    """Spec: RFC 8414, section 3. Its keys are then at a `jwks_url`, since only OpenID Connect says where to look."""
    provider.described_at = OAUTH
    text = public_console(provider).replace('"discovery": true', f'"jwks_url": "{provider.url}/jwks"')
    async with running(text) as it, person_at(it.gateway) as person:
        assert (await person.log_in()).status_code == 303


# What goes wrong


async def test_an_answer_without_our_question_is_refused(provider: Provider) -> None:
    async with somebody(provider) as person, somebody(provider) as other:
        theirs = await other.at_provider(await other.begin())
        says(await person.come_back(theirs), 400, "not known")  # nothing was begun here
        await person.begin()
        says(await person.come_back(theirs), 400, "not known")  # somebody else's answer
        assert provider.exchanged == []
        assert person.cookies == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda query: query | {"state": ["x"]},
        lambda query: query | {"state": query["state"] * 2},
        lambda query: {"code": query["code"], "iss": query["iss"]},
        lambda query: {"state": query["state"], "iss": query["iss"]},
        lambda query: query | {"iss": ["https://elsewhere.example"]},
        lambda query: {"state": query["state"], "code": query["code"]},
    ],
    ids=["another state", "two states", "no state", "no code", "another issuer", "no issuer"],
)
async def test_a_changed_answer_is_refused(provider: Provider, change: Callable[[Any], Any]) -> None:
    async with somebody(provider) as person:
        query = parse_qs(urlsplit(await person.at_provider(await person.begin())).query)
        changed = urlencode(change(query), doseq=True)
        says(await person.come_back(f"{DONE}?{changed}"), 400, "not known")
    assert provider.exchanged == []


async def test_an_answer_counts_once(provider: Provider) -> None:
    async with somebody(provider) as person:
        back = await person.at_provider(await person.begin())
        attempt = person.cookies[ATTEMPT]
        assert (await person.come_back(back)).status_code == 303
        says(await person.come_back(back), 400, "not known")
        # With the cookie kept it is the issuer that has seen the code before.
        again = {"cookie": f"{ATTEMPT}={attempt}"} | VISIT
        says(await person.browser.get(back, headers=again), 400, "is over")


async def test_whoever_lacks_the_scope_is_told_so(provider: Provider) -> None:
    provider.claims = {"scope": "openid toolgate", "sub": "<b>eve</b>"}
    async with somebody(provider) as person:
        answer = await person.log_in()
        says(answer, 403, "may not use this console", SCOPE, "&lt;b&gt;eve", 'login?prompt=login"')
        assert "<b>" not in answer.text
        assert (await person.session()).status_code == 401


TOKENS: dict[str, dict[str, dict[str, Any]]] = {
    "an access token for others": {"claims": {"aud": "elsewhere"}},
    "an access token of another issuer": {"claims": {"iss": "https://elsewhere.example"}},
    "an access token that has ended": {"claims": {"exp": int(time.time()) - 120}},
    "an access token of nobody": {"claims": {"sub": None}},
    "an access token of somebody else": {"claims": {"sub": "grace"}},
    "an ID token of somebody else": {"identity": {"sub": "grace"}},
    "an ID token of another login": {"identity": {"nonce": "x"}},
    "an ID token without nonce": {"identity": {"nonce": None}},
    "an ID token for another client": {"identity": {"aud": "another"}},
    "an ID token for several": {"identity": {"aud": ["console", "another"]}},
    "an ID token that another may use": {"identity": {"azp": "another"}},
    "an ID token that has ended": {"identity": {"exp": int(time.time()) - 120}},
    "an ID token of another issuer": {"identity": {"iss": "https://elsewhere.example"}},
}


@pytest.mark.parametrize("members", TOKENS.values(), ids=TOKENS)
async def test_tokens_that_do_not_hold_open_nothing(provider: Provider, members: Any) -> None:
    for name, value in members.items():
        setattr(provider, name, value)
    async with somebody(provider) as person:
        says(await person.log_in(), 403, "is not accepted")
        assert (await person.session()).status_code == 401


async def test_tokens_with_a_forged_signature_open_nothing(provider: Provider) -> None:
    async with somebody(provider) as person:
        provider.key = 1  # under the name of the other one
        says(await person.log_in(), 403, "is not accepted")


async def test_an_issuer_that_denies_access_is_quoted_in_our_words(provider: Provider) -> None:
    async with somebody(provider) as person:
        provider.error = "access_denied"
        says(await person.log_in(), 403, "Access was denied")
        provider.error = "<script>alert(1)</script>"
        answer = await person.log_in()
        says(answer, 503, "refused with the error", "unknown")
        assert "script" not in answer.text


async def test_a_client_that_the_issuer_does_not_know_is_the_operators_to_mend(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.client_secret = "another"
    async with somebody(provider, login={"client_secret": "wrong"}) as person:
        says(await person.log_in(), 503, "invalid_client")
    [record] = [record for record in caplog.records if record.name == "gateway.console"]
    assert record.__dict__["reason"] == "the issuer refuses: invalid_client"


async def test_an_issuer_that_is_away_is_named_and_asked_again(provider: Provider) -> None:
    provider.is_away = True
    async with somebody(provider) as person:
        answer = await person.browser.get("/console/login", headers=VISIT)
        assert answer.status_code == 503
        assert provider.url in answer.text
        assert "Try again" in answer.text
        assert answer.headers["retry-after"]
        assert (await person.browser.get("/console/", headers=VISIT)).status_code == 200


async def test_an_issuer_that_goes_away_during_a_login_leaves_a_page(provider: Provider) -> None:
    async with somebody(provider) as person:
        back = await person.at_provider(await person.begin())
        provider.is_away = True
        says(await person.come_back(back), 503, "is away")


@pytest.mark.parametrize("member", ["authorization_endpoint", "token_endpoint"])
async def test_an_issuer_does_not_lead_to_plain_http_elsewhere(provider: Provider, member: str) -> None:
    provider.metadata = {member: "http://login.example.com/x"}
    async with somebody(provider) as person:
        assert (await person.browser.get("/console/login", headers=VISIT)).status_code == 503


# Sessions


async def test_a_browser_forgets_a_session_at_its_end(provider: Provider) -> None:
    """That the gateway does, too, is tested with a clock (tests/unit/console/test_session.py)."""
    async with somebody(provider, login={"session": "1m"}) as person:
        await person.log_in()
        [cookie] = list(person.browser.cookies.jar)
        assert cookie.expires is not None
        assert 50 < cookie.expires - time.time() <= 60


async def test_a_changed_cookie_is_none(provider: Provider) -> None:
    async with somebody(provider) as person:
        await person.begin()
        attempt = person.cookies[ATTEMPT]
        await person.log_in()
        good = person.cookies[SESSION]
        person.browser.cookies.clear()
        other = "A" if good[-10] != "A" else "B"
        changed = [good[:-10] + other + good[-9:], good[:-1], "", "x", "ö", "A" * 5000, attempt]
        for value in changed:
            cookie = f"{SESSION}={value}".encode().decode("latin-1")
            headers = {name.encode(): text.encode("latin-1") for name, text in {**OWN_PAGE, "cookie": cookie}.items()}
            assert (await person.browser.get("/console/api/session", headers=headers)).status_code == 401, value
        known = {**OWN_PAGE, "cookie": f"{SESSION}={good}"}
        assert (await person.browser.get("/console/api/session", headers=known)).status_code == 200


@pytest.mark.parametrize(("state", "status"), [(KEYS, 200), (None, 401)])
async def test_a_session_holds_at_every_replica_with_the_same_keys(provider: Provider, state: Any, status: int) -> None:
    async with somebody(provider, state=state) as person, somebody(provider, state=state) as elsewhere:
        await person.log_in()
        headers = {**OWN_PAGE, "cookie": f"{SESSION}={person.cookies[SESSION]}"}
        assert (await elsewhere.browser.get("/console/api/session", headers=headers)).status_code == status


async def test_a_login_begun_at_one_replica_ends_at_another(provider: Provider) -> None:
    async with somebody(provider, state=KEYS) as person, somebody(provider, state=KEYS) as elsewhere:
        back = await person.at_provider(await person.begin())
        elsewhere.browser.cookies = person.browser.cookies
        assert (await elsewhere.come_back(back)).status_code == 303


async def test_a_session_ends_with_the_rules_it_was_made_under(provider: Provider) -> None:
    async with somebody(provider, state=KEYS) as person:
        await person.log_in()
    async with somebody(provider, state=KEYS, login={"scope": "another"}) as elsewhere:
        headers = {**OWN_PAGE, "cookie": f"{SESSION}={person.cookies[SESSION]}"}
        assert (await elsewhere.browser.get("/console/api/session", headers=headers)).status_code == 401


# Other pages


OTHERS = {
    "another origin": {"origin": "https://evil.example"},
    "no origin that can be named": {"origin": "null"},
    "another scheme": {"origin": "http://toolgate.test"},
    "another site": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    "a neighbour": {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    "a form of another site": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    "another host": {"host": "evil.example"},
}


@pytest.mark.parametrize("headers", OTHERS.values(), ids=OTHERS)
async def test_pages_of_others_get_nothing(provider: Provider, headers: dict[str, str]) -> None:
    async with somebody(provider) as person:
        await person.log_in()
        for path in ("/console/api/session", "/console/", "/console/login"):
            answer = await person.browser.get(path, headers=headers)
            assert answer.status_code == 403, path
            assert list(answer.json()) == ["message"]
        answer = await person.browser.post("/console/api/logout", json={}, headers=headers)
        assert answer.status_code == 403
        assert (await person.session()).status_code == 200


async def test_a_link_of_another_site_leads_to_the_page_and_not_to_its_data(provider: Provider) -> None:
    async with somebody(provider) as person:
        await person.log_in()
        assert (await person.browser.get("/console/", headers=VISIT)).status_code == 200
        assert (await person.browser.get("/console/api/session", headers=VISIT)).status_code == 403


async def test_only_a_post_of_json_logs_out(provider: Provider) -> None:
    async with somebody(provider) as person:
        await person.log_in()
        assert (await person.browser.get("/console/api/logout", headers=OWN_PAGE)).status_code == 405
        assert (await person.browser.post("/console/api/logout", data={"a": "b"}, headers=OWN_PAGE)).status_code == 415
        assert (await person.browser.post(DONE, headers=OWN_PAGE)).status_code == 405
        assert (await person.session()).status_code == 200


# Operators


async def test_logins_are_counted_and_written_down_without_codes(provider: Provider) -> None:
    text = public_console(provider)
    async with watched(text) as it:
        async with person_at(it.running.gateway) as person:
            back = await person.at_provider(await person.begin())
            secrets = [back.partition("code=")[2].partition("&")[0], person.cookies[ATTEMPT]]
            await person.come_back(back)
            secrets.append(person.cookies[SESSION])
            await person.session()
            await person.come_back(back)
            await person.browser.post("/console/api/logout", json={}, headers=OWN_PAGE)
            await person.session()
        counted = await samples(it.running, "toolgate_requests_total")
    principal = f"jwt:{provider.url}:ada"
    seen = [
        (line["operation"], line["route"], line["status"], line.get("principal"), line.get("reason"))
        for line in it.lines
    ]
    assert seen == [
        ("console", "/console/login", 303, None, None),
        ("console", "/console/login/done", 303, principal, None),
        ("console", "/console/login/done", 400, None, "login_unknown"),
        ("console", "/console/api/logout", 200, principal, None),
        ("console", "/console/api/session", 401, None, "no_session"),
    ]
    assert not any(secret in it.text for secret in secrets)
    assert sum(value for name, value in counted.items() if "operation=console" in name) == 6


async def test_an_address_that_tries_too_often_has_to_wait(provider: Provider) -> None:
    async with running(public_console(provider), access=AccessLog(None)) as it, person_at(it.gateway) as person:
        answers = [await person.browser.get("/console/login", headers=VISIT) for _ in range(70)]
        assert answers[0].status_code == 303
        assert answers[-1].status_code == 429
        assert answers[-1].headers["retry-after"]
        assert "Too many logins" in answers[-1].text
        counted = await samples(it, "toolgate_rate_limited_total")
        assert set(counted) == {"{rule=console-logins}"}


async def test_without_public_there_is_no_console_for_callers(provider: Provider) -> None:
    text = config({}, auth={"jwt": [provider.entry]}, server={"public_url": URL})
    async with running(text) as it, person_at(it.gateway) as person:
        assert (await person.browser.get("/console/", headers=VISIT)).status_code == 404
        assert (await person.browser.get("/console/login", headers=VISIT)).status_code == 404
