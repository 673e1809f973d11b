"""The parser of requests has no leniency that could be set."""

from __future__ import annotations

import inspect

from httptools import HttpRequestParser

from gateway.server.request_reader import STRICT


def test_every_leniency_that_httptools_offers_is_turned_off() -> None:
    """If this fails, httptools has another one: it belongs in `STRICT`."""
    offered = inspect.signature(HttpRequestParser.set_dangerous_leniencies).parameters.keys() - {"self"}
    assert offered == STRICT.keys()
    assert set(STRICT.values()) == {False}
