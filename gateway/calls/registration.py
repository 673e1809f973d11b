"""What is registered for a call that is remembered."""

from __future__ import annotations

import time

from gateway.calls.execution import CallRequest
from gateway.calls.names import CallNames, new_run
from gateway.calls.records import CallMetadata, DeferredCall, pack_metadata
from gateway.core.model import public_id
from gateway.state.port import DISPATCHING, NewCall

MAX_PATTERN_CHARACTERS = 2048  # of a route, in the metadata of each of its calls


def registration(request: CallRequest, names: CallNames) -> tuple[NewCall, CallMetadata]:
    """The record of a call, and the metadata that are in it."""
    call, principal, backend = request.call, request.caller.principal, request.tool.backend
    call_id, is_deferred, is_keyed = call.call_id, backend.deferred, call.call_id is not None
    request_key = request.request_key
    if is_keyed:
        owner, key, fingerprint, older = names.keyed(principal, call)
    elif request_key is None:
        owner, key, fingerprint, older = names.unkeyed(principal, call)
    else:
        owner, key, fingerprint, older = names.of_request(principal, request_key, call)
    is_unkeyed = not is_keyed and request_key is None
    question = (fingerprint if is_unkeyed else names.question(principal, call)) if is_deferred else None
    metadata = CallMetadata(
        dialect=request.dialect,
        wire_version=request.wire_version,
        call_id=call_id or public_id(key),
        tool=request.tool.id,
        group=request.invocation.group,
        user="" if request.caller.user_id is None else names.users(principal, request.caller.user_id)[0],
        deferred=_deferred(request) if is_deferred else None,
        begun_s=time.time(),
        account=request.caller.account,
        trace=request.trace,
    )
    new = NewCall(
        key=key,
        fingerprint=fingerprint,
        principal=owner,
        backend=backend.name,
        note=pack_metadata(metadata),
        question=question,
        joins=not is_keyed,
        rejoins=request_key is not None,
        idempotent=is_keyed and request.invocation.idempotent,  # without a call id it cannot be repeated
        state=DISPATCHING,  # at once, which saves another request to the state
        older=older,
    )
    return new, metadata


def _deferred(request: CallRequest) -> DeferredCall:
    route = request.tool.route
    patterns = tuple([pattern.pattern for pattern in route.failure_patterns])
    return DeferredCall(
        run=new_run(named=request.invocation.idempotent),
        decode=route.decode,
        failure_patterns=patterns if sum(map(len, patterns)) <= MAX_PATTERN_CHARACTERS else None,
        cancel_after_s=request.invocation.timeout_s if route.cancel_on_timeout else 0.0,
    )
