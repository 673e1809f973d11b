"""Settings of tool servers that speak OTC or OXP."""

from __future__ import annotations

from typing import Literal

from gateway.configfile.sections import setting
from gateway.configfile.values import AnyText, Choice
from gateway.upstream.settings import (
    ReplicatedBackendSettings,
)

OtcDialect = Literal["auto", "rfc", "otc", "lc"]
OxpDialect = Literal["auto", "oxp", "oxp-env"]


class HttpBackendSettings(ReplicatedBackendSettings):
    """A tool server of a protocol that has several forms."""

    dialect: AnyText = setting("auto", "The form of the protocol. `auto` recognises it from the list of tools.")


class OtcBackendSettings(HttpBackendSettings):
    """A tool server that speaks OTC (Open Tool Calling) in any of its forms."""

    protocol: Choice[Literal["otc"]] = setting(..., "Open Tool Calling.")
    dialect: Choice[OtcDialect] = setting(
        "auto", "The form of the protocol. `auto` recognises it from the list of tools."
    )


class OxpBackendSettings(HttpBackendSettings):
    """A tool server that speaks OXP (Open eXecution Protocol), flat or enveloped."""

    protocol: Choice[Literal["oxp"]] = setting(..., "Open eXecution Protocol.")
    dialect: Choice[OxpDialect] = setting(
        "auto", "The form of the protocol. `auto` recognises it from the list of tools."
    )
