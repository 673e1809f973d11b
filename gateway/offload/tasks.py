"""What the child can do. Pure functions of bytes: each part is JSON text unless its task says otherwise."""

from __future__ import annotations

from collections.abc import Callable

from gateway.dialects.callback_toolset import read_toolset
from gateway.dialects.listings import read_list
from gateway.dialects.rcrt_tools import read_catalog
from gateway.offload.callbacks import read_callback
from gateway.offload.documents import read_document
from gateway.offload.judging import judge_schemas
from gateway.offload.validation import explain_input, explain_output

Task = Callable[..., tuple[bytes, ...]]

READ_DOCUMENT = "read_document"
EXPLAIN_INPUT = "explain_input"
EXPLAIN_OUTPUT = "explain_output"
READ_CALLBACK = "read_callback"
READ_LIST = "read_list"
READ_TOOLSET = "read_toolset"
READ_CATALOG = "read_catalog"
JUDGE_SCHEMAS = "judge_schemas"

TASKS: dict[str, Task] = {
    READ_DOCUMENT: read_document,
    EXPLAIN_INPUT: explain_input,
    EXPLAIN_OUTPUT: explain_output,
    READ_CALLBACK: read_callback,
    READ_LIST: read_list,
    READ_TOOLSET: read_toolset,
    READ_CATALOG: read_catalog,
    JUDGE_SCHEMAS: judge_schemas,
}
