"""Settings of the fixed credentials that the gateway shows to servers of every kind."""

from __future__ import annotations

from typing import Annotated

from pydantic import SecretStr

from gateway.configfile.sections import Section, setting
from gateway.configfile.values import Secret, Text


class BearerAuthSettings(Section):
    """A fixed token in `Authorization: Bearer`."""

    bearer: Annotated[SecretStr, Secret(header=True)] = setting(..., "The token that the tool server expects.")


class OwnHeaderSettings(Section):
    """A header that the tool server defines."""

    name: Annotated[str, Text("[A-Za-z0-9][A-Za-z0-9._-]{0,255}", "must be the name of one header")] = setting(
        ..., "The name of the header."
    )
    value: Annotated[SecretStr, Secret(header=True)] = setting(..., "The value that the tool server expects in it.")


class HeaderAuthSettings(Section):
    """A fixed key in a header that the tool server defines."""

    header: OwnHeaderSettings = setting(..., "The header and the key in it.")
