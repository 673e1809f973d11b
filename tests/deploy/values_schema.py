"""Makes the chart's schema of values: its own part as it stands there, and below `config` the schema of the product.

`python -m tests.deploy.values_schema` writes it. Helm before 3.18 reads JSON Schema draft 7, and so it is that.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gateway.settings.load import json_schema

FILE = Path(__file__).parents[2] / "helm/toolgate/values.schema.json"
TEXT = ("description", "title", "default", "$schema")  # as annotations they only make the chart larger
REF = re.compile(r"^#/\$defs/")
LONG = re.compile(r"\{([0-9]+),[0-9]{4,}\}")  # Go's regular expressions repeat up to 1,000 times, or without an end


def values_schema() -> str:
    """The text of the schema as it ought to be."""
    schema = json.loads(FILE.read_text("utf-8"))
    product = _draft_7(json_schema())
    schema["definitions"] = product.pop("$defs")
    del product["required"]  # where there is an existingConfigMap, `config` has a part of it only
    own = schema["properties"]["config"]["allOf"][0]
    schema["properties"]["config"] = {"allOf": [own, product]}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _draft_7(node: Any, *, is_names: bool = False) -> Any:
    """A schema with references to `definitions`, and without what only people read."""
    if isinstance(node, list):
        return [_draft_7(each) for each in node]
    if not isinstance(node, dict):
        return LONG.sub(r"{\1,}", REF.sub("#/definitions/", node)) if isinstance(node, str) else node
    kept = {name: value for name, value in node.items() if is_names or name not in TEXT}
    return {
        name: _draft_7(value, is_names=not is_names and name in ("properties", "$defs")) for name, value in kept.items()
    }


if __name__ == "__main__":
    FILE.write_text(values_schema(), "utf-8")
