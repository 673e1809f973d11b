"""What a program says without an end is logged within bounds."""

from __future__ import annotations

import logging

import pytest

from gateway.bridge.program import BURST, LINES_PER_S, SparingLog


def test_a_burst_is_logged_then_a_line_now_and_then_with_how_many_were_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    sparing = SparingLog(logging.WARNING, "said", lambda: now)
    for _ in range(BURST + 5):
        sparing.write({"line": "x"})
    assert len(caplog.records) == BURST
    now += 1 / LINES_PER_S
    for _ in range(3):
        sparing.write({"line": "y"})
    sparing.end({"pid": 7})
    sparing.end({"pid": 7})
    told = [vars(record) for record in caplog.records]
    assert all("left_out" not in each for each in told[:BURST])
    assert [(each.get("line"), each.get("pid"), each["left_out"]) for each in told[BURST:]] == [
        ("y", None, 5),
        (None, 7, 2),
    ]
