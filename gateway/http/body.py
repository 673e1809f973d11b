"""The body of a request, within its limit, whichever server has it."""

from __future__ import annotations

from msgspec import Struct
from starlette.types import Receive

from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.ports import ANONYMOUS, ServerRequest

NO_PRINCIPAL = ANONYMOUS.principal  # bodies of such callers are counted by address


class CallerLeft(Exception):  # noqa: N818 - not an error
    """The caller closed the connection before the body was whole."""


class ArrivingBody(Struct, frozen=True, eq=False):
    """The body of a request. Both ways to have it raise PAYLOAD_TOO_LARGE as soon as it is."""

    served: ServerRequest | None  # None behind any server but ours
    receive: Receive
    max_bytes: int

    def now(self, holder: str = NO_PRINCIPAL) -> bytes | None:
        """The whole body if it is there; None if it has to be read."""
        if self.served is None:
            return None
        body = self.served.take_body("" if holder == NO_PRINCIPAL else holder)
        if body is not None and len(body) > self.max_bytes:
            raise too_large(self.max_bytes)
        return body

    async def read(self) -> bytes:
        """The whole body, once it is there. Raises CallerLeft when it never is."""
        body = bytearray()  # pieces of some KiB, kept apart, would leave holes in memory that nothing else fills
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise CallerLeft
            body += message.get("body", b"")
            if len(body) > self.max_bytes:
                raise too_large(self.max_bytes)
            if not message.get("more_body", False):
                return bytes(body)


def too_large(max_bytes: int) -> GatewayError:
    """The refusal of a body that is larger."""
    return GatewayError(ErrorCode.PAYLOAD_TOO_LARGE, f"The body must not be larger than {max_bytes} bytes.")
