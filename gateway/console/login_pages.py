"""The pages of a login: plain HTML without scripts, which says in words what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Self

RETRY_S = 5  # by then the issuer is asked again
LOG_IN, ANOTHER = ("login", "Log in"), ("login?prompt=login", "Log in as somebody else")


class LoginFailure(Exception):  # noqa: N818 - what a person is told
    """A login that ends here. `reason` is a word for the log; `action` the link that is offered: path and text."""

    def __init__(
        self,
        status: int,
        reason: str,
        title: str,
        text: str,
        action: tuple[str, str] = LOG_IN,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.title = title
        self.text = text
        self.action = action
        self.headers = headers

    @classmethod
    def unknown(cls) -> Self:
        """An answer of an issuer to a question that this browser has not asked, or too long ago."""
        text = (
            "This login was begun in another browser or window, or too long ago, or it has been used already. "
            "Begin again. If this page comes back, your browser may not accept cookies from this site."
        )
        return cls(400, "login_unknown", "This login is not known", text)

    @classmethod
    def refused(cls, code: str) -> Self:
        """The issuer issued no tokens."""
        if code == "access_denied":
            text = "The login service says that access was denied: by you, or by its administrator."
            return cls(403, "login_denied", "Access was denied", text, ANOTHER)
        if code == "invalid_grant":
            text = "The login service did not accept the code of this login: it was used already, or is too old."
            return cls(400, "login_code", "This login is over", text)
        text = (
            f"The login service refused with the error {code!r}. Trying again may help; if it does not, "
            "an operator finds more in the log of the gateway."
        )
        return cls(503, "login_refused", "The login service refused", text)

    @classmethod
    def away(cls, issuer: str) -> Self:
        """The issuer cannot be reached, or its answers cannot be used."""
        text = (
            f"The login service {issuer} cannot be used at the moment. The gateway itself is running. "
            "Try again in a moment; an operator finds the reason in the log of the gateway."
        )
        headers = {"retry-after": str(RETRY_S)}
        return cls(503, "login_away", "The login service is away", text, ("login", "Try again"), headers)

    @classmethod
    def untrusted(cls, kind: str) -> Self:
        """A token of the issuer does not hold."""
        text = (
            f"The login service has issued an {kind} that this gateway does not accept. "
            "An operator finds the reason in the log of the gateway."
        )
        return cls(403, "login_token", "The login is not accepted", text)

    @classmethod
    def lacks_scope(cls, principal: str, scope: str) -> Self:
        """Somebody is who they say, and has no business here."""
        text = (
            f"You have logged in as {principal}, but without the scope {scope}, which this console needs. "
            "Whoever administers the login service can grant it to you."
        )
        return cls(403, "login_scope", "You may not use this console", text, ANOTHER)

    @classmethod
    def limited(cls) -> Self:
        """Too many logins of one address."""
        text = "There were too many logins from your address. Wait some seconds, and try again."
        return cls(429, "", "Too many logins", text)


def login_page(issuer: str) -> str:
    """The console's first page for somebody without a session."""
    return _page("Toolgate console", f"Log in at {issuer} to see this gateway.", LOG_IN, "")


def failure_page(failure: LoginFailure, depth: int) -> str:
    """What became of a login; the page is `depth` folders below the console."""
    return _page(failure.title, failure.text, failure.action, "../" * depth)


def _page(title: str, text: str, action: tuple[str, str], base: str) -> str:
    """`base` leads to the console. All words are escaped: some are an issuer's."""
    path, label = action
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="stylesheet" href="{base}style.css">\n</head>\n'
        f'<body>\n<main class="login">\n<h1>{escape(title)}</h1>\n<p>{escape(text)}</p>\n'
        f'<p><a class="button" href="{base}{escape(path)}">{escape(label)}</a></p>\n</main>\n</body>\n</html>\n'
    )
