"""A tool's requirements: what of them is missing, and which part of the caller's context the tool gets.

OXP 1.0, Tool Requirements: every listed id is needed, an empty string counts as missing, and a tool without
requirements runs with nothing extra. Tokens and secrets go only to a tool that declares them.
"""

from __future__ import annotations

from msgspec.structs import replace

from gateway.catalogue.published import PublishedTool
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import CallContext, JsonObject, ToolCall


def for_user(call: ToolCall, user_id: str) -> ToolCall:
    """The call for the user whom its caller's own credential names, without `user_info`.

    `user_info` was not verified: its email address, say, may be another user's, and a tool server would read it beside
    a `user_id` that was. Raises FORBIDDEN for a call that names another user.
    """
    context = call.context
    info = context.user_info
    claimed_id = info.get("user_id") if isinstance(info, dict) else None
    if context.user_id not in (None, user_id) or claimed_id not in (None, user_id):
        raise GatewayError(ErrorCode.FORBIDDEN, "Your credential does not let you call for that user.")
    if context.user_id is None or info is not None:
        return replace(call, context=replace(context, user_id=user_id, user_info=None))
    return call


def check_requirements(tool: PublishedTool, context: CallContext) -> None:
    """Raises MISSING_REQUIREMENTS that lists everything at once.

    A missing authorization is refused here only if the route knows where to get it; otherwise the tool server
    is asked, because it alone can make a challenge (OXP 1.0, Tool Authorization Challenges).
    """
    needed = tool.definition.requires
    if not (needed.authorization or needed.secrets or needed.user_id):
        return
    missing: JsonObject = {}
    urls = tool.route.authorization_urls
    challenges = [
        {"id": item.id, "url": urls[item.id]}
        for item in needed.authorization
        if item.id in urls and not context.tokens.get(item.id)
    ]
    if challenges:
        missing["authorization"] = challenges
    secrets = [{"id": secret} for secret in needed.secrets if not context.secrets.get(secret)]
    if secrets:
        missing["secrets"] = secrets
    if needed.user_id and not context.user_id:
        missing["user_id"] = True
    if missing:
        message = f"The tool needs something more before it can run: {', '.join(missing)}."
        raise GatewayError(ErrorCode.MISSING_REQUIREMENTS, message, missing=missing)


def grant(tool: PublishedTool, context: CallContext) -> CallContext:
    """The part of the context that the tool declares, with the route's own secrets in place of the caller's."""
    requires, route = tool.requires, tool.route
    if not (requires.authorization or requires.secrets):
        if not (context.tokens or context.secrets):
            return context
        return CallContext(user_id=context.user_id, user_info=context.user_info)
    tokens = [item.id for item in requires.authorization if item.id not in tool.withheld]
    secrets = [secret for secret in requires.secrets if secret not in tool.withheld or secret in route.secrets]
    offered = {**context.secrets, **route.secrets}
    return CallContext(
        tokens={key: context.tokens[key] for key in tokens if context.tokens.get(key)},
        secrets={key: offered[key] for key in secrets if offered.get(key)},
        user_id=context.user_id,
        user_info=context.user_info,
    )
