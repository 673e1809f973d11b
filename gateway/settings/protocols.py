"""The protocols that a file can name: every class of settings that has words of its own for `protocol`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args

from gateway.configfile.sections import ByWord
from gateway.protocols.openapi import settings as openapi  # noqa: F401 # defines one
from gateway.upstream.settings import BackendSettings


def _by_word(parent: type[Any] = BackendSettings) -> Iterator[tuple[str, type[BackendSettings]]]:
    """The classes below one that have words of their own for `protocol`, in the order of their definition."""
    for kind in parent.__subclasses__():
        yield from ((word, kind) for word in get_args(kind.model_fields["protocol"].annotation))
        yield from _by_word(kind)


PROTOCOLS: Mapping[str, type[BackendSettings]] = dict(_by_word())
AnyBackend = Annotated[BackendSettings, ByWord("protocol", PROTOCOLS)]
