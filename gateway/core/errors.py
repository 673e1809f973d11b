"""What can go wrong before a tool runs, in words every layer shares.

A tool that failed is data (`model.ToolFailure`); a call that did not get through is a `GatewayError`;
a configuration file that cannot be used is a `ConfigError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

Headers = tuple[tuple[bytes, bytes], ...]


class ErrorCode(StrEnum):
    """Why a call did not get through; the word that callers' programs go by (`Toolgate-Code`), and that of logs."""

    INVALID_REQUEST = "invalid_request"
    CALL_CONFLICT = "call_conflict"  # its call_id was used for another call
    RESULT_EXPIRED = "result_expired"
    INVALID_ARGUMENTS = "invalid_arguments"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"  # no such path
    METHOD_NOT_ALLOWED = "method_not_allowed"
    TOOL_NOT_FOUND = "tool_not_found"
    RATE_LIMITED = "rate_limited"
    MISSING_REQUIREMENTS = "missing_requirements"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    UNSUPPORTED_MEDIA = "unsupported_media"
    BACKEND_UNAVAILABLE = "backend_unavailable"
    AUTHORIZATION_UNAVAILABLE = "authorization_unavailable"  # the operator's own service gives no decision
    NOT_READY = "not_ready"  # lists alone: not every tool server has been asked yet
    INTERNAL = "internal"


class FailureCode(StrEnum):
    """Why a call failed whose tool ran, or may have run; a refusal answered as a failure keeps its own code."""

    TOOL_ERROR = "tool_error"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"
    STILL_RUNNING = "still_running"
    CANCELLED = "cancelled"
    BACKEND_BUSY = "backend_busy"
    BROKEN_ANSWER = "broken_answer"
    RESULT_TOO_LARGE = "result_too_large"
    RESULT_NOT_KEPT = "result_not_kept"  # the caller who waited for it has it
    NOT_RUN = "not_run"


class ServerCode(StrEnum):
    """Why a request was refused by the HTTP server below the application, where no other word says it."""

    REQUEST_TIMEOUT = "request_timeout"
    HEAD_TOO_LARGE = "head_too_large"
    GATEWAY_UNAVAILABLE = "gateway_unavailable"


CODE = b"toolgate-code"  # the header of every refusal and every failure
REASON = b"toolgate-reason"  # of calls that the operator's own service does not allow


class GatewayError(Exception):
    """A refusal, raised only while the tool provably has not run.

    `message` may reach a user or a model, `developer_message` the caller's log, `detail` ours only; none of them holds
    a secret or an argument. `parameters` maps names to what is wrong with them; `missing` is `missing_requirements`
    of OXP 1.0; `headers` are added to the reply. `status` and `tool_code` are as in `ToolResult`, of a tool server that
    refused the call.
    """

    code: ErrorCode
    message: str
    developer_message: str | None = None
    detail: str | None = None
    parameters: Mapping[str, str] | None = None
    missing: Mapping[str, Any] | None = None
    retry_after_s: float | None = None
    headers: Headers = ()
    status: int = 0
    tool_code: str = ""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        developer_message: str | None = None,
        detail: str | None = None,
        parameters: Mapping[str, str] | None = None,
        missing: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
        headers: Headers = (),
    ) -> None:
        self.code = code
        self.message = message
        self.developer_message = developer_message
        self.detail = detail
        self.parameters = parameters
        self.missing = missing
        self.retry_after_s = retry_after_s
        self.headers = headers

    def __str__(self) -> str:
        return self.message

    def drop_trace(self) -> None:
        """Clears the traceback, whose frames lead to the request and so back to the error: a cycle of some 12 KB."""
        self.__traceback__ = self.__context__ = self.__cause__ = None


UNAVAILABLE = "The tool is temporarily unavailable."
RETRY_AFTER_S = 1.0  # where nothing says when it will be better: a tool server may be restarting, a queue moves on


def unavailable(detail: str, retry_after_s: float = RETRY_AFTER_S) -> GatewayError:
    """The refusal of a call that was not sent to any tool server; `detail` is for our log."""
    return GatewayError(ErrorCode.BACKEND_UNAVAILABLE, UNAVAILABLE, detail=detail, retry_after_s=retry_after_s)


class NotJsonError(GatewayError):
    """A body that is not JSON; surfaces that tell this from JSON of the wrong shape go by the class."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, f"The body is not valid JSON: {reason}.")


class InsufficientScopeError(GatewayError):
    """A call whose caller lacks scopes of the tool. `scopes` are all that the call needs."""

    def __init__(self, message: str, scopes: frozenset[str]) -> None:
        super().__init__(ErrorCode.FORBIDDEN, message)
        self.scopes = scopes


class DeniedError(GatewayError):
    """A call that the operator's own service does not allow. `reason` is the word that it gave, fit for a header."""

    def __init__(self, reason: str) -> None:
        message = f"The operator's policy does not allow this call ({reason})."
        super().__init__(ErrorCode.FORBIDDEN, message, headers=((REASON, reason.encode("ascii")),))
        self.reason = reason


class FixedError(GatewayError):
    """A refusal whose words are the same for every caller, so that its encoded answer can be cached.

    Such refusals are counted by `reason`, a word of a fixed vocabulary or the name of something configured, which
    stands in the request's own log line: a flood of them must not cost a second line each.
    """

    reason: str


class OtherOriginError(FixedError):
    """A request that a page of a foreign origin has sent (MCP 2026-07-28, Transports: Security Warning)."""

    code = ErrorCode.FORBIDDEN
    message = reason = "Pages of that origin may not call."

    def __init__(self) -> None:
        pass


class UnauthenticatedError(FixedError):
    """The caller is not known. `attempted`: a signature or a key was checked, which may have been a guess."""

    code = ErrorCode.UNAUTHENTICATED

    def __init__(self, message: str, reason: str, attempted: bool, headers: Headers = ()) -> None:
        # Without the constructor of its base, which takes twice as long to set what is None anyway.
        self.message = message
        self.reason = self.detail = reason
        self.attempted = attempted
        self.headers = headers


class UndecidedError(UnauthenticatedError):
    """The caller's key is not here, but may be in a moment: `Authenticator.identify_later` decides."""


class StateUnavailable(Exception):  # noqa: N818 - a condition that passes, not an error of ours
    """The state cannot be reached, or has just lost its data, so that a call which is not there may still exist."""


class ConfigError(Exception):
    """A configuration that cannot be used; `problems` lists every finding, each `file:line:col: path: what`.

    `files` are the paths of the files that it names, as far as it could be read: when one changes, it may be usable.
    """

    def __init__(self, problems: Sequence[str], files: Sequence[str] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.files = files
