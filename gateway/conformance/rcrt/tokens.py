"""Checks of tokens: how a server issues them, and that it demands them."""

from __future__ import annotations

import json
import time
import uuid

from gateway.conformance.rcrt.registry import MUST, SERVER, SHOULD, Registry
from gateway.conformance.rcrt.server import RcrtServer

check = Registry()


@check(
    1,
    MUST,
    "`POST /auth/token` returns a token with its identity and its expiry",
    section=f"{SERVER}: generate_jwt_token",
    remedy="Respond with 200 and token, owner_id, agent_id, roles, and exp in seconds since 1970.",
)
async def token(server: RcrtServer) -> None:
    answer = await server.minted()
    answer.must(answer.status == 200, "Status 200.")
    answer.must(isinstance(answer.member("token"), str), "A string in `token`.")
    for name, wanted in (("owner_id", server.owner_id), ("agent_id", server.agent_id)):
        answer.must(answer.member(name) == wanted, f"`{name}` {wanted}.")
    answer.must(isinstance(answer.member("roles"), list), "A list in `roles`.")
    expiry = answer.member("exp")
    answer.must(isinstance(expiry, int | float) and expiry > time.time(), "A time in the future in `exp`.")


@check(
    2,
    MUST,
    "An identity that is not a UUID gets no token",
    section=f"{SERVER}: generate_jwt_token",
    remedy="Respond with 400 unless owner_id and agent_id are both UUIDs.",
)
async def token_needs_uuids(server: RcrtServer) -> None:
    for members in ({"owner_id": "me"}, {"agent_id": "me"}, {"owner_id": ""}):
        answer = await server.minted(**members)
        answer.must(answer.status == 400, "Status 400.")


@check(
    3,
    SHOULD,
    "A request without a token is refused with 401",
    section=f"{SERVER}: AuthContext",
    remedy="Keep AUTH_MODE at jwt: otherwise anyone who can reach the port can run tools.",
)
async def without_token(server: RcrtServer) -> None:
    answer = await server.client.send("GET", f"/breadcrumbs/{uuid.uuid4()}/full", is_known=False)
    answer.must(answer.status == 401, "Status 401 for a read.")
    body = json.dumps(server.draft()).encode()
    headers = {"content-type": "application/json"}
    answer = await server.client.send("POST", "/breadcrumbs", body=body, headers=headers, is_known=False)
    answer.must(answer.status == 401, "Status 401 for a new breadcrumb.")


@check(
    4,
    SHOULD,
    "The event stream refuses an invalid token",
    section=f"{SERVER}: AuthContext",
    remedy="Verify the signature and exp before the stream starts; respond with 401.",
)
async def wrong_token(server: RcrtServer) -> None:
    async with server.stream(authorization="Bearer kit.wrong.token") as stream:
        stream.must(stream.status == 401, "Status 401.")
