"""Checks of tokens: how a server issues them, and that it demands them."""

from __future__ import annotations

import time
import uuid

from toolgate_conformance.checks import SkippedError
from toolgate_conformance.registry import MUST, SHOULD, Registry
from toolgate_conformance.servers.rcrt.documents import SERVER
from toolgate_conformance.servers.rcrt.server import RcrtServer

READER_ID = "0f0c4b52-6f0e-4f5c-8c6e-7d1f5f3f9a02"  # an agent of its own: a server keeps the latest roles of each
LEEWAY_S = 60  # that servers allow after exp

check: Registry[RcrtServer] = Registry()


@check(1, MUST, f"{SERVER}: generate_jwt_token")
async def token(server: RcrtServer) -> None:
    """`POST /auth/token` returns a token with its identity and its expiry.

    Fix: Respond with 200 and token, owner_id, agent_id, roles, and exp in seconds since 1970.
    """
    answer = await server.minted()
    answer.must(answer.status == 200, "Status 200.")
    answer.must(isinstance(answer.member("token"), str), "A string in `token`.")
    for name, wanted in (("owner_id", server.owner_id), ("agent_id", server.agent_id)):
        answer.must(str(answer.member(name)).lower() == wanted.lower(), f"`{name}` {wanted}.")
    answer.must(isinstance(answer.member("roles"), list), "A list in `roles`.")
    expiry = answer.member("exp")
    answer.must(isinstance(expiry, int | float) and expiry > time.time(), "A time in the future in `exp`.")


@check(2, MUST, f"{SERVER}: generate_jwt_token")
async def token_needs_uuids(server: RcrtServer) -> None:
    """An identity that is not a UUID gets no token.

    Fix: Respond with 400 unless owner_id and agent_id are both UUIDs.
    """
    for members in ({"owner_id": "me"}, {"agent_id": "me"}, {"owner_id": ""}):
        answer = await server.minted(**members)
        answer.must(answer.status == 400, "Status 400.")


@check(3, SHOULD, f"{SERVER}: AuthContext")
async def without_token(server: RcrtServer) -> None:
    """A request without a token is refused with 401.

    Fix: Keep AUTH_MODE at jwt: otherwise anyone who can reach the port can run tools.
    """
    answer = await server.send_unauthenticated("GET", f"/breadcrumbs/{uuid.uuid4()}/full")
    answer.must(answer.status == 401, "Status 401 for a read.")
    answer = await server.send_unauthenticated("POST", "/breadcrumbs", server.draft())
    answer.must(answer.status == 401, "Status 401 for a new breadcrumb.")


@check(4, SHOULD, f"{SERVER}: AuthContext")
async def wrong_token(server: RcrtServer) -> None:
    """The event stream refuses an invalid token.

    Fix: Verify the signature and exp before the stream starts; respond with 401.
    """
    async with server.stream(authorization="Bearer kit.wrong.token") as stream:
        stream.must(stream.status == 401, "Status 401.")


@check(5, SHOULD, f"{SERVER}: AuthContext")
async def expired_token(server: RcrtServer) -> None:
    """An expired token is refused with 401.

    Fix: Verify exp on every request.
    """
    ttl_s = -10 * LEEWAY_S
    answer = await server.minted(ttl_sec=ttl_s)
    expiry = answer.member("exp") if answer.status == 200 else None
    if not isinstance(expiry, int | float) or expiry > time.time() - LEEWAY_S:
        raise SkippedError("The server issues no token that has expired.")
    headers = {"authorization": f"Bearer {answer.member('token')}"}
    answer = await server.send("GET", f"/breadcrumbs/{uuid.uuid4()}/full", **headers)
    answer.must(answer.status == 401, "Status 401.")


@check(6, SHOULD, f"{SERVER}: AuthContext")
async def token_in_query(server: RcrtServer) -> None:
    """A token in the query of the URL opens the event stream.

    Fix: Read access_token from the query if there is no Authorization header: browsers cannot set one on a stream.
    """
    async with server.stream_by_query() as stream:
        stream.must(stream.status == 200, "Status 200.")


@check(7, SHOULD, f"{SERVER}: create_breadcrumb")
async def roles_are_enforced(server: RcrtServer) -> None:
    """A token without the role emitter or curator cannot create breadcrumbs.

    Fix: Respond with 403 unless the roles of the token include emitter or curator.
    """
    answer = await server.minted(agent_id=READER_ID, roles=["subscriber"])
    if answer.status != 200:  # which is a check of its own
        raise SkippedError(f"The server issued no token: {answer.status}.")
    answer = await server.create(server.draft(), authorization=f"Bearer {answer.member('token')}")
    answer.must(answer.status == 403, "Status 403.")
