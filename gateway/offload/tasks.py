"""What the child can do. Pure functions of bytes: each part is JSON text unless its task says otherwise."""

from __future__ import annotations

from collections.abc import Callable

from gateway.offload.documents import read_document
from gateway.offload.validation import explain_input, explain_output

Task = Callable[..., tuple[bytes, ...]]

READ_DOCUMENT = "read_document"
EXPLAIN_INPUT = "explain_input"
EXPLAIN_OUTPUT = "explain_output"

TASKS: dict[str, Task] = {
    READ_DOCUMENT: read_document,
    EXPLAIN_INPUT: explain_input,
    EXPLAIN_OUTPUT: explain_output,
}
