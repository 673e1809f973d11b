"""Checks of how a client gets its token, and sends it."""

from __future__ import annotations

from toolgate_conformance.clients.rcrt.breadcrumbs import is_uuid, token_in
from toolgate_conformance.clients.rcrt.seen import Seen
from toolgate_conformance.clients.scenario_checks import MUST, SHOULD, Registry
from toolgate_conformance.rcrt.registry import SERVER

ISSUE = f"{SERVER}: generate_jwt_token"
AUTH = f"{SERVER}: AuthContext"
CREATING = {"emitter", "curator"}

check = Registry("RCRTC")


@check(
    1,
    MUST,
    "A token is requested with the UUIDs of an owner and an agent",
    "plain",
    section=ISSUE,
    remedy="POST owner_id and agent_id to /auth/token; the owner is the tenant of the server.",
)
def token_is_requested(plain: Seen) -> None:
    requests = [request for request, _ in plain.sent_to("POST", "/auth/token")]
    plain.must(bool(requests), "A request POST /auth/token.")
    document = requests[0].document
    plain.must(isinstance(document, dict), "A JSON object.")
    plain.must(document.get("owner_id") == plain.owner_id, f"`owner_id` {plain.owner_id}.")
    plain.must(is_uuid(document.get("agent_id")), "A UUID in `agent_id`.")


@check(
    2,
    MUST,
    "The token has a role that may create breadcrumbs",
    "plain",
    section=f"{SERVER}: create_breadcrumb",
    remedy="Request the roles emitter and subscriber; without `roles` the token has all of them.",
)
def token_has_roles(plain: Seen) -> None:
    requests = plain.sent_to("POST", "/auth/token")
    plain.must(bool(requests), "A request POST /auth/token.")
    for request, reply in requests:
        roles = (request.document or {}).get("roles")
        fits = roles is None or (isinstance(roles, list) and bool(CREATING.intersection(map(str, roles))))
        plain.must(fits or reply.status != 200, "The role emitter or curator.")


@check(
    3,
    MUST,
    "Requests carry the token",
    "plain",
    section=AUTH,
    remedy="Send Authorization: Bearer with the token, or access_token in the query if there is no such header.",
)
def token_is_sent(plain: Seen) -> None:
    plain.asked()
    fits = any(token_in(request) in plain.tokens for request, _ in plain.creations)
    plain.must(fits, "The token of the server in the request for the tool.")


@check(
    4,
    MUST,
    "The event stream is opened with the token",
    "plain",
    section=AUTH,
    remedy="Send Authorization: Bearer with the request for the stream, too.",
)
def stream_has_token(plain: Seen) -> None:
    fits = any(reply.status == 200 for _, reply in plain.streams())
    plain.must(fits, "A request GET /events/stream with the token of the server.")


@check(
    5,
    SHOULD,
    "A token that is no longer accepted is replaced",
    "expired",
    section=AUTH,
    remedy="After a 401, request another token and repeat the request: the server has done nothing.",
)
def token_is_replaced(expired: Seen) -> None:
    expired.asked()
    expired.must(len(expired.creations) > 1, "A second request for the tool, with another token.")
    expired.must_return()
