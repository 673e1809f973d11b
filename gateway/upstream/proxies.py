"""Settings of the proxy that the gateway's own requests go through."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

from gateway.configfile.substitution import InvalidValueError, Scalar, refers
from gateway.configfile.values import SUBSTITUTED, Schema, Value
from gateway.net.client import Origin, Proxies, Proxy

NONE, ENVIRONMENT = "none", "environment"
LOGIN = re.compile(r"[a-z]+://[^:@/]*:(?P<password>[^@/]+)@")


class _ProxyValue(Value):
    """`none`, `environment`, or the URL of a proxy."""

    title = "`none`, `environment` or the URL of a proxy"
    if_missing = NONE

    def parse(self, scalar: Scalar) -> str | Proxy:
        text = scalar.text
        if text == NONE:
            return NONE
        try:
            if text == ENVIRONMENT:
                Proxies.of_environment(os.environ)
                return ENVIRONMENT
            if "://" not in text:
                raise InvalidValueError(
                    "must be none, environment, or the URL of a proxy, such as http://proxy.example:3128"
                )
            return Proxy.parse(text)
        except InvalidValueError:
            raise
        except ValueError as exc:
            raise InvalidValueError(f"cannot be used: {exc}" if text == ENVIRONMENT else str(exc)) from None

    def holds_secret(self, raw: str) -> bool:
        login = LOGIN.match(raw)
        return login is not None and not refers(login["password"])

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^(none|environment|http://.+)$|{SUBSTITUTED}"}


ProxyChoice = Annotated[str | Proxy, _ProxyValue()]


def proxy_for(choice: Any, url: str) -> Proxy | None:
    """The proxy of requests to a URL by what a `proxy` key says; None: they go there directly."""
    if isinstance(choice, Proxy):
        return choice
    if choice == ENVIRONMENT:
        return Proxies.of_environment(os.environ).of(Origin.parse(url))
    return None
