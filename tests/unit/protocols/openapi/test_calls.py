"""When a document is told not to be that of its API."""

from __future__ import annotations

import pytest

from gateway.protocols.openapi.calls import MANY, MismatchWarnings

KNOWS_NOT = "an API does not know an operation as its document describes it"
NOTHING = "an API answers every call with 404: its url may be wrong"

ROWS = {
    "404 of several tools": ([(404, "A"), (404, "B")] * MANY, [NOTHING]),
    "404 of one tool": ([(404, "A")] * MANY * 3, []),
    "anything in between": ([*[(404, "A"), (404, "B")] * (MANY // 2), (409, "A")] * 3, []),
    "again after it was right": (
        [*[(404, "A"), (404, "B")] * MANY, (200, "A"), *[(404, "A"), (404, "B")] * MANY],
        [NOTHING] * 2,
    ),
    "once for each tool": ([(405, "A"), (501, "A"), (415, "B"), (406, "B"), (200, "C"), (500, "C")], [KNOWS_NOT] * 2),
}


@pytest.mark.parametrize(("answers", "told"), ROWS.values(), ids=ROWS)
def test_openapi_44_an_api_that_has_nothing_the_document_describes_is_told(
    answers: list[tuple[int, str]], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    warnings = MismatchWarnings("api")
    for status, tool in answers:
        warnings.note(status, tool)
    assert [record.message for record in caplog.records] == told
