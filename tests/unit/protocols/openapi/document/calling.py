"""Operations that are called, and what they answer."""

from __future__ import annotations

import json
from typing import Any

from gateway.core.model import AuthorizationRequirement, CallContext, Invocation, Requirements
from gateway.core.wire import WireReply
from gateway.protocols.openapi.document.plan import Access, AnswerPlan, CallPlan, LentCredential, OperationTool

ORIGIN = "https://api.example"
JSON = "application/json"


def operation(
    method: str = "GET",
    *,
    key_header: str = "",
    lent: tuple[LentCredential, ...] = (),
    needs: Requirements | None = None,
    **answers: Any,
) -> OperationTool:
    """A tool whose answers are read by a plan with these members."""
    return OperationTool(
        tool="Api.get",
        version="1.0.0",
        name="Api_get",
        description="",
        input_schema={},
        output_schema={},
        remote_id=f"{method} /things",
        requires=needs or Requirements(),
        plan=CallPlan(
            method=method,
            path="/things",
            is_safe=method in ("GET", "HEAD"),
            answers=AnswerPlan(**answers),
            access=Access(lent=lent),
            key_header=key_header,
        ),
    )


def called(tool: OperationTool, *, idempotent: bool = False, **more: Any) -> Invocation:
    return Invocation(call_id="c", tool=tool, arguments={}, timeout_s=1.0, idempotent=idempotent, **more)


def answer(status: int, body: Any = b"", content_type: str | None = JSON, **headers: str) -> WireReply:
    """An answer; what is not bytes is sent as JSON."""
    fields = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    if content_type is not None:
        fields.append((b"content-type", content_type.encode("latin-1")))
    return WireReply(
        status=status, headers=tuple(fields), body=body if isinstance(body, bytes) else json.dumps(body).encode()
    )


TOKEN = operation(
    lent=(LentCredential(id="github"),),
    needs=Requirements(authorization=(AuthorizationRequirement(id="github", scopes=("repo", "user")),)),
)
SECRET = operation(
    lent=(LentCredential(id="KEY", is_secret=True, where="header", name="x-key"),), needs=Requirements(secrets=("KEY",))
)
ROUTES_SECRET = operation(lent=(LentCredential(id="KEY", is_secret=True, where="header", name="x-key"),))
LENDING = CallContext(tokens={"github": "gho_token"}, secrets={"KEY": "s3cret"})
