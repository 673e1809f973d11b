"""Input and output schemas: compiled once, checked on every call, explained in words for users.

Pure. JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12, by `$schema`; 2020-12 where it says nothing.
"""

from gateway.schemas.compiled import CompiledSchema, check_input, is_json_schema
from gateway.schemas.inline import SharedInliner, inline_refs, inlined
from gateway.schemas.references import SchemaError
from gateway.schemas.wording import Finding, by_parameter

__all__ = [
    "CompiledSchema",
    "Finding",
    "SchemaError",
    "SharedInliner",
    "by_parameter",
    "check_input",
    "inline_refs",
    "inlined",
    "is_json_schema",
]
