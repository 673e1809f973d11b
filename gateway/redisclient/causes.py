"""Why Redis cannot be used, in one sentence for the operator: what is wrong there, and what to do.

Nothing that a server sent is repeated but its own error messages, which hold no password.
"""

from __future__ import annotations

import socket
import ssl

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    NoPermissionError,
    RedisClusterException,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError


def cause(exc: BaseException, place: str) -> str:
    """The sentence for what redis-py has raised, or what the system below it has; `place` is the URL."""
    exc = _first(exc)
    words, is_tls = str(exc).rstrip("."), place.startswith("rediss")
    if isinstance(exc, ResponseError):
        return _refusal(exc, words)
    match exc:
        case AuthenticationError() | AuthorizationError():
            return f"it refuses the login ({words}); correct the user and the password in state.url"
        case BusyLoadingError():
            return "it is still loading its data; wait until it has"
        case MasterNotFoundError(__cause__=AuthenticationError()):
            return "the sentinels refuse the login; correct state.sentinel_password"
        case MasterNotFoundError():
            return f"{words}; see whether the sentinels run, and whether state.url names their service"
        case InvalidResponse():
            return "what answers there is not Redis; if it is Redis with TLS, begin state.url with rediss"
        case TimeoutError() | RedisTimeoutError():
            hint = ", and whether it speaks TLS" if is_tls else ""
            return f"it does not answer in time; see whether a firewall lies between{hint}"
    below = _below(exc)
    sentence = _of_system(below)
    if sentence is None and (isinstance(below, ConnectionError) or "closed" in words):
        hint = "wants a client certificate, set state.tls.cert" if is_tls else "speaks TLS, begin state.url with rediss"
        return f"it closes the connection; if it {hint}"
    return sentence or words or type(exc).__name__


def _refusal(exc: ResponseError, words: str) -> str:
    match exc:
        case NoPermissionError():
            return f"its user lacks a permission ({words}); allow it, with ACL SETUSER"
        case ClusterDownError():
            return f"{words}; ask its nodes for CLUSTER INFO"
        case AskError() | TryAgainError():
            return f"the slot of a partition moves to another node ({words}); wait until it has"
    if "cluster support disabled" in words:
        return "it is no cluster; begin state.url with redis, or make it one"
    return f"it refuses what it is asked ({words})"


def _first(exc: BaseException) -> BaseException:
    """What a node has said, from which redis-py made that the cluster cannot be reached."""
    while isinstance(exc, RedisClusterException):
        inner = exc.__cause__ or exc.__context__
        if inner is None:
            break
        exc = inner
    return exc


def _below(exc: BaseException) -> BaseException | None:
    """The error of the system from which redis-py made this one."""
    error: BaseException | None = exc
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _of_system(below: BaseException | None) -> str | None:
    match below:
        case socket.gaierror():
            return "its host is not known; correct it in state.url, or see whether names are resolved here"
        case ssl.SSLCertVerificationError(verify_message=why) if "mismatch" in why:
            return f"its certificate has another name ({why.rstrip('.')}); state.url must name it the same way"
        case ssl.SSLCertVerificationError(verify_message=why):
            return f"its certificate is not trusted ({why}); name in state.tls.ca who has signed it"
        case ssl.SSLError():
            word = getattr(below, "reason", None) or below.strerror  # an error made in Python has no `reason`
            return f"the TLS handshake failed ({word}); if it speaks no TLS, begin state.url with redis"
    if isinstance(below, ConnectionRefusedError) or "refused" in str(below):  # of several addresses: a plain OSError
        return "nothing listens there; start it, or correct state.url"
    return None
