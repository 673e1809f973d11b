"""The latest lines of the access log: which are kept, and which of them are new to who asks."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.console.log import MAX_LINES, RecentLines, quantiles
from gateway.console.view import RefusedQuestionError
from gateway.http.accesslog import AccessLine, AccessLog
from gateway.logs.lines import Lines
from gateway.logs.output import stamp


class Scalar(Lines):
    """What would be written."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def put_request(self, line: Any) -> None:
        self.lines.append(line)


def line(number: int = 0, **more: Any) -> AccessLine:
    made = AccessLine(stamp(1000.0 + number), f"request-{number}", "call", "/tools/call", 200, 12.5, 10, 20)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def put(access: AccessLog, *lines: AccessLine) -> None:
    for each in lines:
        assert access.put is not None
        access.put(each)


def shown(recent: RecentLines, after: str = "") -> tuple[list[str], str]:
    answer = recent.since({"after": after})
    return [each["request_id"] for each in answer["lines"]], answer["cursor"]


def test_lines_are_kept_beside_being_written() -> None:
    written = Scalar()
    access = AccessLog(written)
    recent = RecentLines(access)
    put(access, line(1))
    assert shown(recent) == (["request-1"], "1")
    assert len(written.lines) == 1


def test_lines_that_are_written_nowhere_are_kept_once_somebody_looks() -> None:
    access = AccessLog(None)
    recent = RecentLines(access)
    assert access.put is None
    assert shown(recent) == ([], "0")
    put(access, line(1))
    assert shown(recent)[0] == ["request-1"]


def test_lines_are_kept_when_the_log_is_written_in_another_form() -> None:
    access = AccessLog(Scalar())
    recent = RecentLines(access)
    access.write_to(Scalar(), "text")
    put(access, line(1))
    assert shown(recent)[0] == ["request-1"]


def test_a_cursor_leads_to_the_lines_after_it() -> None:
    access = AccessLog(Scalar())
    recent = RecentLines(access)
    put(access, line(1), line(2))
    _, cursor = shown(recent)
    assert shown(recent, cursor) == ([], "2")
    put(access, line(3))
    assert shown(recent, cursor) == (["request-3"], "3")


def test_only_the_latest_are_kept_and_each_has_a_key_of_its_own() -> None:
    access = AccessLog(Scalar())
    recent = RecentLines(access)
    put(access, *(line(number) for number in range(MAX_LINES + 20)))
    answer = recent.since({})
    assert [each["request_id"] for each in answer["lines"]] == [
        f"request-{number}" for number in range(20, MAX_LINES + 20)
    ]
    assert len({each["key"] for each in answer["lines"]}) == MAX_LINES


def test_a_cursor_of_an_earlier_process_leads_to_all_lines() -> None:
    access = AccessLog(Scalar())
    recent = RecentLines(access)
    put(access, line(1))
    assert shown(recent, "7000")[0] == ["request-1"]


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "9" * 30, "٣"])
def test_what_is_no_cursor_is_refused(after: str) -> None:
    with pytest.raises(RefusedQuestionError):
        RecentLines(AccessLog(None)).since({"after": after})


def test_a_line_shows_what_it_has_with_durations_in_milliseconds() -> None:
    access = AccessLog(Scalar())
    recent = RecentLines(access)
    put(access, line(1, tool="Shop.Buy", tool_ms=10.0))
    (only,) = recent.since({})["lines"]
    assert (only["time"], only["duration_ms"], only["tool_ms"]) == (1001.0, 12.5, 10)
    assert "reason" not in only


def test_the_times_of_a_tool_are_those_of_its_calls() -> None:
    access = AccessLog(Scalar())
    recent = RecentLines(access)
    put(access, line(1, tool="Shop.Buy"), line(2, tool="Shop.Sell"), line(3, tool="Shop.Buy", operation="poll"))
    assert recent.seconds_of("Shop.Buy") == [0.0125]


def test_quantiles_of_few_and_of_many() -> None:
    assert quantiles([]) is None
    assert quantiles([2.0]) == {"count": 1, "p50_s": 2.0, "p99_s": 2.0}
    assert quantiles([float(number) for number in range(100)]) == {"count": 100, "p50_s": 50.0, "p99_s": 99.0}
