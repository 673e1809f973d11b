"""Checks arguments and results against schemas: here if that is fast, else in another process.

A result that cannot be checked counts as one that breaks its schema.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from gateway.catalogue.published import InputCheck, OutputCheck, PublishedTool
from gateway.core import jsontext
from gateway.core.errors import ErrorCode, FailureCode, GatewayError, NotJsonError, unavailable
from gateway.core.model import Arguments, Json, ToolFailure, ToolResult
from gateway.offload import ChildTasks, OffloadError, OverrunError
from gateway.schemas import by_parameter

log = logging.getLogger("gateway.pipeline")

BROKEN_VALUE = ToolFailure(
    message="The tool returned a value that does not fit its own output schema.", code=FailureCode.BROKEN_ANSWER
)
TOO_LONG = "takes too long to be checked"


class Checks:
    """The checks of every call; `checker` does those that could hold up the event loop."""

    def __init__(self, checker: ChildTasks) -> None:
        self._checker = checker

    async def document(self, body: bytes, argument_members: tuple[bytes, ...], principal: str) -> Json:
        """Reads a body that holds very many values, but for those under the members of that name (`Arguments`).

        Raises INVALID_REQUEST, BACKEND_UNAVAILABLE.
        """
        try:
            return await self._checker.read(body, argument_members, jsontext.MAX_DEPTH, principal)
        except OverrunError as exc:
            raise GatewayError(ErrorCode.INVALID_REQUEST, "The body takes too long to be read.") from exc
        except OffloadError as exc:
            raise unavailable("the process that reads large bodies has no time") from exc
        except jsontext.JsonError as exc:
            raise NotJsonError(str(exc)) from exc

    def accepts(self, tool: PublishedTool, arguments: Arguments, size: int) -> bool:
        """Whether arguments fit their tool's schema; False also where only `validate` can tell."""
        return tool.schema.accepts(arguments, size)

    async def validate(self, tool: PublishedTool, arguments: Arguments, size: int, principal: str) -> Arguments:
        """Checks arguments against their tool's schema; `size` is at least that of their text.

        Returns them as they are sent: the route may have them coerced. Raises INVALID_ARGUMENTS, BACKEND_UNAVAILABLE.
        """
        check = tool.route.validate_input
        if check is InputCheck.OFF:
            return arguments
        sent: Arguments | None = arguments
        if check is InputCheck.COERCE:
            sent = tool.schema.coerced_now(arguments, size)
        findings = None if sent is None else tool.schema.findings_now(sent, size)
        if sent is None or findings is None:
            sent, wrong = await self._validated_apart(tool, arguments, principal)
        else:
            wrong = by_parameter(findings)
        if wrong:
            raise GatewayError(ErrorCode.INVALID_ARGUMENTS, "Some input parameters are invalid.", parameters=wrong)
        return sent

    async def _validated_apart(
        self, tool: PublishedTool, arguments: Arguments, principal: str
    ) -> tuple[Arguments, dict[str, str]]:
        """The arguments as they are sent, and what is wrong with them. Raises BACKEND_UNAVAILABLE."""
        try:
            if tool.route.validate_input is InputCheck.COERCE:
                return await self._checker.coerced(tool.schema, arguments, principal)
            return arguments, await self._checker.errors(tool.schema, arguments, principal)
        except OverrunError:
            return arguments, {"input": TOO_LONG}
        except OffloadError as exc:
            raise unavailable("the process that checks large inputs has no time") from exc

    async def result(self, result: ToolResult, tool: PublishedTool, principal: str) -> ToolResult:
        """As `checked`, for a result that `checked` cannot decide on."""
        return _enforced(result, tool, await self.violation(tool, result.value, principal))

    async def violation(self, tool: PublishedTool, value: Json, principal: str) -> str | None:
        """What in a result does not fit its tool's output schema, which can be used; None when nothing does."""
        try:
            return await self._checker.violation(tool.output, value, principal)
        except OverrunError:
            return f"it {TOO_LONG}"
        except OffloadError:
            return "the process that checks large values has no time"


def check_result(result: ToolResult, tool: PublishedTool) -> ToolResult | None:
    """The result of a tool with `checks_output`, unless its value breaks the output schema and the route minds.

    None where finding out could hold up the event loop: `Checks.result` decides.
    """
    if result.failure is not None:
        return result
    if tool.output.accepts(result.value, result.value_bytes):
        return _as_promised(result) if tool.promises else result
    findings = tool.output_findings(result.value, result.value_bytes)
    if findings is None:
        return None
    return _enforced(result, tool, findings[0].sentence if findings else None)


def _enforced(result: ToolResult, tool: PublishedTool, violation: str | None) -> ToolResult:
    if violation is None:
        return _as_promised(result) if tool.promises else result
    log.warning(
        "a result does not fit its tool's output schema", extra={"tool": tool.definition.id, "reason": violation}
    )
    if tool.route.validate_output is OutputCheck.WARN:
        return result
    return ToolResult(failure=BROKEN_VALUE, duration_ms=result.duration_ms)


def _as_promised(result: ToolResult) -> ToolResult:
    """The result of a tool whose callers were told what its values are, and are to get them."""
    is_plain = result.structured is None and isinstance(result.value, dict)
    return result if is_plain else replace(result, structured="value")
