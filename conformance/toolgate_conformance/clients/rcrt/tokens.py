"""Checks of how a client gets its token, and sends it."""

from __future__ import annotations

from toolgate_conformance.clients.rcrt.breadcrumbs import is_uuid, token_in
from toolgate_conformance.clients.rcrt.observation import RcrtObservation
from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.servers.rcrt.documents import SERVER

ISSUE = f"{SERVER}: generate_jwt_token"
AUTH = f"{SERVER}: AuthContext"
CREATING = {"emitter", "curator"}

check: Registry[RcrtObservation] = Registry()


@check(1, MUST, ISSUE)
def token_is_requested(plain: RcrtObservation) -> None:
    """A token is requested with the UUIDs of an owner and an agent.

    Fix: POST owner_id and agent_id to /auth/token; the owner is the tenant of the server.
    """
    requests = [request for request, _ in plain.sent_to("POST", "/auth/token")]
    plain.must(bool(requests), "A request POST /auth/token.")
    document = requests[0].document
    plain.must(isinstance(document, dict), "A JSON object.")
    plain.must(document.get("owner_id") == plain.owner_id, f"`owner_id` {plain.owner_id}.")
    plain.must(is_uuid(document.get("agent_id")), "A UUID in `agent_id`.")


@check(2, MUST, f"{SERVER}: create_breadcrumb")
def token_has_roles(plain: RcrtObservation) -> None:
    """The token has a role that may create breadcrumbs.

    Fix: Request the roles emitter and subscriber; without `roles` the token has all of them.
    """
    requests = plain.sent_to("POST", "/auth/token")
    plain.must(bool(requests), "A request POST /auth/token.")
    for request, reply in requests:
        roles = (request.document or {}).get("roles")
        fits = roles is None or (isinstance(roles, list) and bool(CREATING.intersection(map(str, roles))))
        plain.must(fits or reply.status != 200, "The role emitter or curator.")


@check(3, MUST, AUTH)
def token_is_sent(plain: RcrtObservation) -> None:
    """Requests carry the token.

    Fix: Send Authorization: Bearer with the token, or access_token in the query if there is no such header.
    """
    plain.asked()
    fits = any(token_in(request) in plain.tokens for request, _ in plain.creations)
    plain.must(fits, "The token of the server in the request for the tool.")


@check(4, MUST, AUTH)
def stream_has_token(plain: RcrtObservation) -> None:
    """The event stream is opened with the token.

    Fix: Send Authorization: Bearer with the request for the stream, too.
    """
    fits = any(reply.status == 200 for _, reply in plain.streams())
    plain.must(fits, "A request GET /events/stream with the token of the server.")


@check(5, SHOULD, AUTH)
def token_is_replaced(expired: RcrtObservation) -> None:
    """A token that is no longer accepted is replaced.

    Fix: After a 401, request another token and repeat the request: the server has done nothing.
    """
    expired.asked()
    expired.must(len(expired.creations) > 1, "A second request for the tool, with another token.")
    expired.must_return()
