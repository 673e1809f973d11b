"""A configuration to add to, variables it may name, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import read
from gateway.errors import ConfigError

CANARY = "correct-horse-battery-staple-0123456789"
ENV = {
    "SECRET": CANARY,
    "EMPTY": "",
    "PORT": "8081",
    "YES": "true",
    "WAIT": "5s",
    "NESTED": "${env:SECRET}",
    "HOST": "gateway.internal",
}
BACKENDS = """
auth: none
backends:
  crm:
    protocol: otc
    url: http://127.0.0.1:9101
"""


def problems(text: str, base: Path = Path()) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text, source="f.yaml", base=base, env=ENV)
    return list(caught.value.problems)
