"""The table of protocols: what it names is there and fits, and each key of routes has a protocol that heeds it."""

from __future__ import annotations

from importlib import import_module
from inspect import iscoroutinefunction
from typing import get_args

import pytest

from gateway.protocols import PROTOCOLS
from gateway.settings import RouteSettings
from gateway.upstream.settings import BackendSettings


@pytest.mark.parametrize("word", PROTOCOLS)
def test_a_line_names_classes_and_modules_that_fit_each_other(word: str) -> None:
    protocol = PROTOCOLS[word]
    settings = protocol.settings_class()
    assert issubclass(settings, BackendSettings)
    assert get_args(settings.model_fields["protocol"].annotation) == (word,)
    assert protocol.backend_class().max_exchange_s > 0
    assert protocol.drafter is not None
    assert iscoroutinefunction(import_module(protocol.drafter).draft)
    assert protocol.route_keys <= RouteSettings.model_fields.keys()


def test_an_api_key_can_be_set_for_protocols_that_have_a_header_for_it() -> None:
    takes_key = {
        word
        for word, protocol in PROTOCOLS.items()
        if "ApiKeyAuthSettings" in str(protocol.settings_class().model_fields["auth"].annotation)
    }
    assert takes_key == {word for word, protocol in PROTOCOLS.items() if protocol.api_key_header}
