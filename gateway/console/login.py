"""The console on the listener for callers: only for people who have logged in at an OpenID provider.

The server itself runs the authorization code flow (OpenID Connect Core 1.0, section 3.1) with PKCE, `state` and
`nonce`; the page never sees a token. Of the two tokens, the access token says who somebody is and which scopes they
have: it is verified as those of callers are. The ID token proves that it was issued to us, for this very login.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.auth.remote import UnavailableError
from gateway.auth.tokens import take_apart
from gateway.console.login_pages import LoginFailure, failure_page, login_page
from gateway.console.origin import OwnOrigin
from gateway.console.provider import Provider, TokensRefusedError
from gateway.console.session import Cookies, LoginAttempt
from gateway.console.view import PRINCIPAL
from gateway.core.errors import GatewayError, UnauthenticatedError, UndecidedError
from gateway.core.ports import Authenticator, Caller
from gateway.core.wire import Head

log = logging.getLogger("gateway.console")

DONE = "/login/done"  # below the console; the issuer has to know it as a redirect URI
AGAIN = "login"  # the only prompt that a link of ours asks for (OpenID Connect Core 1.0, section 3.1.2.1)
UNAUTHENTICATED = {"www-authenticate": 'Cookie realm="toolgate console"'}

Handler = Callable[[Request], Awaitable[Response]]


class FrontListener(Protocol):
    """What the login needs of the listener in front of it."""

    def admit(self, scope: Scope) -> None:
        """Counts a step of a login by its address. Raises RATE_LIMITED."""
        ...

    def note(self, scope: Scope, *, principal: str = "", reason: str = "") -> None:
        """Notes for the log who sends a request, or a word for why it was refused."""
        ...


class Login:
    """Answers the steps of a login, and passes on to `console` what people with a session ask for.

    The files of the page go to everybody, as they hold nothing; without a session its first page is the login page.
    `scopes` are asked of the issuer, `scope` is needed. `access` and `identity` verify access tokens and ID tokens.
    `url` is the console's own, without a slash at its end.
    """

    def __init__(
        self,
        console: ASGIApp,
        listener: FrontListener,
        provider: Provider,
        cookies: Cookies,
        *,
        access: Authenticator,
        identity: Authenticator,
        url: str,
        scope: str,
        asked: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> None:
        self._console = console
        self._listener = listener
        self._provider = provider
        self._cookies = cookies
        self._access = access
        self._identity = identity
        self._url = url
        self._origin = OwnOrigin(url)
        self._scope = scope
        self._asked = dict(asked)
        self._headers = dict(headers) | {"cache-control": "no-store"}
        self._steps: Mapping[str, Handler] = {"/login": self._begin, DONE: self._complete}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._console(scope, receive, send)
        request = Request(scope, receive)
        path = _path(scope)
        if (refusal := self._origin.refusal(request, is_page=not path.startswith("/api/"))) is not None:
            self._listener.note(scope, reason="other_origin")
            answer: Response | None = self._json(403, refusal)
        elif (step := self._steps.get(path)) is not None:
            answer = await self._step(step, request)
        elif path == "/api/logout":
            answer = self._log_out(request)
        else:
            answer = self._without_session(request, path)
        if answer is None:
            return await self._console(scope, receive, send)
        return await answer(scope, receive, send)

    def _without_session(self, request: Request, path: str) -> Response | None:
        """The answer to who has no session; None where the console is to answer."""
        principal = self._cookies.principal(request.cookies.get(self._cookies.session_name))
        if principal is not None:
            request.scope[PRINCIPAL] = principal
            self._listener.note(request.scope, principal=principal)
        elif path.startswith("/api/"):
            self._listener.note(request.scope, reason="no_session")
            return self._json(401, "Log in first: your session has ended.", UNAUTHENTICATED)
        elif path == "/":
            return self._page(200, login_page(self._provider.issuer))
        return None

    async def _step(self, step: Handler, request: Request) -> Response:
        """One step of a login; whatever is wrong becomes a page that says so."""
        if request.method not in ("GET", "HEAD"):
            return self._json(405, "A login is a matter of GET.", {"allow": "GET"})
        depth = _path(request.scope).count("/") - 1
        try:
            self._listener.admit(request.scope)
            return await step(request)
        except LoginFailure as failure:
            self._listener.note(request.scope, reason=failure.reason)
            answer = self._page(failure.status, failure_page(failure, depth), failure.headers)
        except GatewayError as error:  # too many of them
            answer = self._page(429, failure_page(LoginFailure.limited(), depth), _retry_after(error))
        answer.headers.append(*self._cookies.forget(self._cookies.attempt_name))
        return answer

    async def _begin(self, request: Request) -> Response:
        """Sends a person to the issuer, and gives the browser what the answer has to fit."""
        attempt = LoginAttempt.begin()
        asked = self._asked | {
            "redirect_uri": self._url + DONE,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        if request.query_params.get("prompt") == AGAIN:
            asked["prompt"] = AGAIN
        try:
            url = await self._provider.login_url(asked)
        except UnavailableError as exc:
            raise self._away(exc) from exc
        return self._redirect(url, self._cookies.begin(attempt))

    async def _complete(self, request: Request) -> Response:
        """Exchanges the code, verifies what it gives, and begins a session."""
        answered = request.query_params
        attempt = self._cookies.attempt(request.cookies.get(self._cookies.attempt_name))
        state = _single(answered, "state").encode()
        if attempt is None or not hmac.compare_digest(attempt.state.encode(), state):
            raise LoginFailure.unknown()
        if not _single(answered, "code") and "error" not in answered:
            raise LoginFailure.unknown()
        caller, identified = await self._caller(answered, attempt)
        self._listener.note(request.scope, principal=caller.principal)
        if self._scope not in caller.scopes:
            raise LoginFailure.lacks_scope(caller.principal, self._scope)
        if identified != caller.principal:  # whose rights, and who has logged in, must be one
            raise self._untrusted("access token", "it is of another subject than the ID token")
        log.info("a person has logged in to the console", extra={"principal": caller.principal})
        answer = self._redirect(f"{self._url}/", self._cookies.open_session(caller.principal))
        answer.headers.append(*self._cookies.forget(self._cookies.attempt_name))
        return answer

    async def _caller(self, answered: QueryParams, attempt: LoginAttempt) -> tuple[Caller, str]:
        """Whose the access token is, and the principal of the ID token. Raises LoginFailure."""
        try:
            names_itself = (await self._provider.metadata()).names_itself
            # RFC 9207, section 2.4: an answer of another issuer is none to our question.
            if _single(answered, "iss") != self._provider.issuer and (names_itself or "iss" in answered):
                raise LoginFailure.unknown()
            if "error" in answered:
                raise TokensRefusedError(_single(answered, "error"))
            tokens = await self._provider.exchange(_single(answered, "code"), attempt.verifier, self._url + DONE)
        except UnavailableError as exc:
            raise self._away(exc) from exc
        except TokensRefusedError as exc:
            self._log_failure(f"the issuer refuses: {exc}")
            raise LoginFailure.refused(exc.code) from exc
        identified = await self._check_identity(tokens.id, attempt.nonce)
        return await self._verified(self._access, tokens.access, "access token"), identified.principal

    async def _check_identity(self, token: str, nonce: str) -> Caller:
        """OpenID Connect Core 1.0, section 3.1.3.7, besides what holds for any token. Raises LoginFailure."""
        caller = await self._verified(self._identity, token, "ID token")
        claims = take_apart(token.encode()).claims
        parties = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        party = claims.get("azp", self._provider.client_id if len(parties) == 1 else None)
        if party != self._provider.client_id:
            raise self._untrusted("ID token", "authorized party")
        if not isinstance(claims.get("nonce"), str) or not hmac.compare_digest(
            claims["nonce"].encode(errors="replace"), nonce.encode()
        ):
            raise self._untrusted("ID token", "nonce")
        return caller

    async def _verified(self, authenticator: Authenticator, token: str, kind: str) -> Caller:
        """Who a token names. Raises LoginFailure."""
        head = Head(method="GET", path=DONE, headers={b"authorization": b"Bearer " + token.encode()})
        try:
            try:
                return authenticator.identify(head)
            except UndecidedError:
                return await authenticator.identify_later(head)
        except UnauthenticatedError as exc:
            raise self._untrusted(kind, exc.reason) from exc

    def _log_out(self, request: Request) -> Response:
        if request.method != "POST":
            return self._json(405, "Logging out takes a POST.", {"allow": "POST"})
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return self._json(415, "The body must be application/json.")
        principal = self._cookies.principal(request.cookies.get(self._cookies.session_name))
        self._listener.note(request.scope, principal=principal or "")
        answer = JSONResponse({}, headers=self._headers)
        answer.headers.append(*self._cookies.forget(self._cookies.session_name))
        return answer

    def _away(self, exc: UnavailableError) -> LoginFailure:
        self._log_failure(str(exc))
        return LoginFailure.away(self._provider.issuer)

    def _untrusted(self, kind: str, reason: str) -> LoginFailure:
        self._log_failure(f"its {kind} is not accepted: {reason}")
        return LoginFailure.untrusted(kind)

    def _log_failure(self, reason: str) -> None:
        about = {"issuer": self._provider.issuer, "reason": reason}
        log.warning("a login to the console failed", extra=about)

    def _page(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
        return Response(text, status, self._headers | dict(headers or {}), "text/html")

    def _json(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
        return JSONResponse({"message": message}, status, self._headers | dict(headers or {}))

    def _redirect(self, url: str, cookie: tuple[str, str]) -> Response:
        answer = RedirectResponse(url, 303, self._headers)
        answer.headers.append(*cookie)
        return answer


def _path(scope: Scope) -> str:
    """The path below where the console is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _single(answered: QueryParams, name: str) -> str:
    """A parameter of the issuer's answer, empty if there is none; it must not be repeated (RFC 6749, section 3.1)."""
    values = answered.getlist(name)
    return values[0] if len(values) == 1 else ""


def _retry_after(error: GatewayError) -> Mapping[str, str]:
    return {} if error.retry_after_s is None else {"retry-after": f"{error.retry_after_s:g}"}
