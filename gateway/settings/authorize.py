"""Settings of the operator's own service that is asked whether a call may run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from gateway.configfile.sections import ByOnlyKey, Section, setting
from gateway.configfile.values import Choice, Duration, Flag, Integer
from gateway.configfile.web import EndpointUrl, TlsSettings
from gateway.upstream.proxies import ProxyChoice
from gateway.upstream.settings import BearerAuthSettings, HeaderAuthSettings

OnFailure = Literal["deny", "allow"]


class AuthorizeSettings(Section):
    """A service that is asked whether a call may run, such as Open Policy Agent."""

    url: EndpointUrl = setting(
        ..., "What is asked with POST. Of Open Policy Agent: the URL of a decision, below `/v1/data`."
    )
    timeout_s: Annotated[float, Duration("10ms", "30s")] = setting(
        "1s",
        "How long the service may take for a decision. A call waits as long at most for its turn to be asked about.",
    )
    cache_s: Annotated[float, Duration("0s", "1h")] = setting(
        "5s",
        "How long each process uses a decision for calls about which it would ask the same. `0s`: it asks each time.",
    )
    on_failure: Choice[OnFailure] = setting(
        "deny",
        "What becomes of a call without a decision, because the service is away, too slow, or gives no usable answer: "
        "it is refused (`deny`), or runs (`allow`). It does not run if the service answers other questions. If the "
        "service refuses the question with a 4xx (but 408 and 429), the call is denied in any case.",
    )
    with_arguments: Flag = setting(
        False, "Whether the service is also told the arguments of the call. Its decisions are not stored then."
    )
    max_concurrency: Annotated[int, Integer(1, 10_000)] = setting(
        64,
        "How many calls one process may ask about at once. The others wait for their turn, in which callers alternate, "
        "and are refused if that takes longer than `timeout`.",
    )
    auth: Annotated[BearerAuthSettings | HeaderAuthSettings, ByOnlyKey()] | None = setting(
        None, "How the gateway proves to the service who it is."
    )
    proxy: ProxyChoice | None = setting(
        None, "The proxy for requests to the service. By default, the one at the top of the file."
    )
    tls: TlsSettings | None = setting(
        None, "Certificates for https. By default, the authorities that the system trusts."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.tls is not None and not self.url.startswith("https:"):
            yield "tls", "has no effect unless url begins with https"
        if self.with_arguments and self.cache_s and "cache_s" in self.model_fields_set:
            yield "cache_s", "has no effect with with_arguments: true; such decisions are not stored"
