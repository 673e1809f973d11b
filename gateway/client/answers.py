"""What a client reads of a gateway's answers (OXP 1.0, openapi.json); members that it does not know are left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from gateway.core.errors import FailureCode

CODE, CALL_ID, LOCATION, RETRY_AFTER = "toolgate-code", "toolgate-call-id", "location", "retry-after"
SECONDS = re.compile(r"[0-9]{1,9}")  # as gateways write Retry-After

Answer = TypeVar("Answer", bound=Struct)


class Consent(Struct, frozen=True):
    """Where a user grants access, and where to ask whether it is done (ToolAuthorizationChallenge)."""

    url: str
    check_url: str | None = None
    id: str = ""


class NamedSecret(Struct, frozen=True):
    id: str


class Missing(Struct, frozen=True):
    """`missing_requirements`."""

    authorization: tuple[Consent, ...] = ()
    secrets: tuple[NamedSecret, ...] = ()
    user_id: bool = False


class Refusal(Struct, frozen=True):
    """ServerErrorResponse and ValidationErrorResponse."""

    message: str
    developer_message: str | None = None
    parameter_errors: dict[str, str] = field(default_factory=dict)
    missing_requirements: Missing = Missing()


class Failure(Struct, frozen=True):
    """ToolError."""

    message: str
    can_retry: bool = False
    retry_after_ms: float | None = None
    additional_prompt_content: str | None = None


class Outcome(Struct, frozen=True):
    """CallToolResponse."""

    success: bool
    value: Any = None
    error: Failure = Failure(message="The tool failed and did not say why.")


class Needs(Struct, frozen=True):
    """`requirements` of a tool."""

    authorization: tuple[NamedSecret, ...] = ()
    secrets: tuple[NamedSecret, ...] = ()
    user_id: bool = False


class Tool(Struct, frozen=True):
    """ToolDefinition. `id` is `Toolkit.Tool@x.y.z`, `name` what models may call it."""

    id: str
    name: str = ""
    description: str = ""
    version: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] | None = None
    requirements: Needs = Needs()


class ToolList(Struct, frozen=True):
    """ListToolsResponse."""

    items: tuple[Tool, ...]


class ChallengeAnswer(Struct, frozen=True):
    status: str


class GatewayReply(Struct, frozen=True):
    """An answer as it came; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The `Toolgate-Code` of a refusal or failure; empty for a result."""
        return self.headers.get(CODE, "")

    @property
    def goes_on(self) -> bool:
        """Whether the call still runs, and can be asked for."""
        return self.code == FailureCode.STILL_RUNNING and LOCATION in self.headers and CALL_ID in self.headers

    @property
    def retry_after_s(self) -> int | None:
        """In how many seconds a refused request may be repeated; None if the answer does not say."""
        after = self.headers.get(RETRY_AFTER, "")
        return int(after) if SECONDS.fullmatch(after) else None


def read(body: bytes, form: type[Answer]) -> Answer | None:
    """Reads a body; None when it is not of that form."""
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
