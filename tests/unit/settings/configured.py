"""A configuration to add to, variables it may name, what is said of one that is wrong, and the schema of all."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from gateway.core.errors import ConfigError
from gateway.settings.load import json_schema, read

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


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of the file; the code takes a tenth of a second to make it."""
    return json_schema()


@cache
def validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema())


def problems(text: str, base: Path = Path()) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text, source="f.yaml", base=base, env=ENV)
    return list(caught.value.problems)
