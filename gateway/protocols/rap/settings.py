"""Settings of tool servers that call back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from gateway.configfile.sections import ByOnlyKey, ListOf, setting
from gateway.configfile.values import Choice
from gateway.configfile.web import OriginUrl
from gateway.upstream.settings import (
    BearerAuthSettings,
    JwtAuthSettings,
    ReplicatedBackendSettings,
)


class CallbackBackendSettings(ReplicatedBackendSettings):
    """A tool server that accepts a call at once and sends the result later to a URL of the gateway."""

    protocol: Choice[Literal["callback"]] = setting(..., "Callbacks, as in RAP (Reactive Agent Protocol).")
    allowed_origins: ListOf[OriginUrl] = setting(
        [], "Further origins to which URLs of the tool server may lead. They get the same credentials."
    )
    # The protocol has no header for keys.
    auth: Annotated[BearerAuthSettings | JwtAuthSettings, ByOnlyKey()] | None = setting(
        None, "How the gateway proves to the tool server who it is."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from ReplicatedBackendSettings.problems(self)
        if "toolkit" in self.model_fields_set:
            yield "toolkit", "has no effect; the tool server names its toolset itself"
