"""The answers of a gateway in the flat form of OXP 1.0, as far as the command line reads them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

Answer = TypeVar("Answer", bound=Struct)


class Challenge(Struct, frozen=True):
    """Where a user grants access, and where to ask whether it is done (ToolAuthorizationChallenge)."""

    url: str
    check_url: str | None = None


class NamedSecret(Struct, frozen=True):
    id: str


class Missing(Struct, frozen=True):
    """`missing_requirements`."""

    authorization: tuple[Challenge, ...] = ()
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
    """ToolDefinition."""

    id: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    requirements: Needs = Needs()


class Catalogue(Struct, frozen=True):
    """ListToolsResponse."""

    items: tuple[Tool, ...]


class ChallengeStatus(Struct, frozen=True):
    status: str


def read(body: bytes, form: type[Answer]) -> Answer | None:
    """Reads a body; None when it is not of that form."""
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
