"""The tasks of the child: pure functions of bytes. Each part is JSON text unless its task says otherwise."""

from __future__ import annotations

from collections.abc import Callable

from gateway.dialects.callback_toolset import read_toolset
from gateway.dialects.listings import read_list
from gateway.dialects.rcrt_tools import read_catalog
from gateway.offload.reading import read_callback, read_document
from gateway.offload.validation import check_schemas, explain_input, explain_output

Task = Callable[..., tuple[bytes, ...]]

READ_DOCUMENT = "read_document"
EXPLAIN_INPUT = "explain_input"
EXPLAIN_OUTPUT = "explain_output"
READ_CALLBACK = "read_callback"
READ_LIST = "read_list"
READ_TOOLSET = "read_toolset"
READ_CATALOG = "read_catalog"
CHECK_SCHEMAS = "check_schemas"

TASKS: dict[str, Task] = {
    READ_DOCUMENT: read_document,
    EXPLAIN_INPUT: explain_input,
    EXPLAIN_OUTPUT: explain_output,
    READ_CALLBACK: read_callback,
    READ_LIST: read_list,
    READ_TOOLSET: read_toolset,
    READ_CATALOG: read_catalog,
    CHECK_SCHEMAS: check_schemas,
}
