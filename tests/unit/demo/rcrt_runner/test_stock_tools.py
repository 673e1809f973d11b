"""What the stock tools do and complain of, workflows above all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.demo.rcrt_caller import Caller

OUTPUTS: list[tuple[str, dict[str, Any], Any]] = [
    ("random", {"min": 7, "max": 7, "count": 3}, {"numbers": [7, 7, 7]}),
    ("timer", {"seconds": 0}, {"waited": 0, "message": "Waited 0 seconds"}),
    ("calculator", {"expression": "25 * 4"}, {"result": 100, "expression": "25 * 4", "formatted": "25 * 4 = 100"}),
    ("calculator", {"expression": "-(1 + 2) / 4"}, {"result": -0.75, "expression": "-(1 + 2) / 4"}),
    ("json-transform", {"operation": "extract", "data": {"a": [{"b": 1}]}, "path": "a[0].b"}, {"result": 1}),
    ("json-transform", {"operation": "map", "data": [{"a": 1}], "mapping": {"b": "a"}}, {"result": [{"b": 1}]}),
    (
        "json-transform",
        {"operation": "filter", "data": [{"a": 1}, {"a": 2}], "condition": {"a": 2}},
        {"result": [{"a": 2}]},
    ),
    (
        "json-transform",
        {"operation": "sort", "data": [{"a": 2}, {"a": 1}], "sort_by": "a"},
        {"result": [{"a": 1}, {"a": 2}]},
    ),
]


@pytest.mark.parametrize(("tool", "given", "output"), OUTPUTS)
def test_the_stock_tools_do_their_work(
    caller: Caller, tool: str, given: dict[str, Any], output: dict[str, Any]
) -> None:
    assert output.items() <= caller.call(tool, given)["output"].items()


FAILURES: list[tuple[str, Any]] = [
    ("echo", {"message": 1}),
    ("echo", [1]),
    ("random", {"min": 2, "max": 1}),
    ("random", {"count": 11}),
    ("random", {"min": "1"}),
    ("random", {"min": 0.2, "max": 0.8}),
    ("timer", {"seconds": 61}),
    ("timer", {"seconds": True}),
    ("calculator", {"expression": "1 / 0"}),
    ("calculator", {"expression": "9 ** 9 ** 9"}),
    ("calculator", {"expression": "(-1) ** 0.5"}),
    ("calculator", {"expression": "__import__('os')"}),
    ("calculator", {"expression": "(" * 250}),
    ("calculator", {"expression": "1" * 301}),
    ("json-transform", {"operation": "extract", "data": {}, "path": "a"}),
    ("json-transform", {"operation": "sort", "data": [{"a": 1}, {"a": "x"}], "sort_by": "a"}),
    ("json-transform", {"operation": "map", "data": {}, "mapping": {}}),
    ("json-transform", {"operation": "join", "data": []}),
    ("workflow", {"steps": []}),
    ("workflow", {"steps": [{"id": "a"}]}),
]


@pytest.mark.parametrize(("tool", "given"), FAILURES)
def test_the_stock_tools_complain_themselves(caller: Caller, tool: str, given: Any) -> None:
    context = caller.call(tool, given)
    assert context["status"] == "error"
    assert "Tool Error: " in context["error"]


def step(step_id: str, tool: str, given: dict[str, Any], *dependencies: str) -> dict[str, Any]:
    return {"id": step_id, "tool": tool, "input": given, "dependencies": list(dependencies)}


SEVEN = step("seven", "random", {"min": 7, "max": 7})


def test_a_workflow_runs_its_steps_as_requests_in_order(caller: Caller) -> None:
    total = step("sum", "calculator", {"expression": "${seven.numbers[0]} + 5"}, "seven")
    output = caller.call("workflow", {"steps": [total, SEVEN]})["output"]
    assert output["results"]["sum"]["result"] == 12
    assert output["executionOrder"] == ["seven", "sum"]
    requests = caller.server.get("/breadcrumbs?tag=workflow:step&include_context=true").json()
    assert any(request["context"]["requestId"].startswith("workflow-sum-") for request in requests)


def test_a_workflow_can_return_one_step(caller: Caller) -> None:
    assert caller.call("workflow", {"steps": [SEVEN], "returnStep": "seven"})["output"] == {"numbers": [7]}
    assert "error" in caller.call("workflow", {"steps": [SEVEN], "returnStep": "eight"})["output"]


def test_dependencies_must_be_declared(caller: Caller) -> None:
    undeclared = step("says", "echo", {"message": "${seven.numbers}"})
    assert caller.call("workflow", {"steps": [undeclared, SEVEN]})["output"]["results"]["says"] == {
        "echo": "${seven.numbers}"
    }


def test_an_object_inside_a_text_breaks_the_step(caller: Caller) -> None:
    says = step("says", "echo", {"message": "${seven}"}, "seven")
    error = caller.call("workflow", {"steps": [SEVEN, says]})["error"]
    assert "Step says failed: the step is not JSON once its placeholders are filled in" in error


@pytest.mark.parametrize(
    "steps", [[step("a", "echo", {}, "b"), step("b", "echo", {}, "a")], [step("a", "echo", {}, "x")]]
)
def test_circles_and_unknown_dependencies_are_found(caller: Caller, steps: list[Any]) -> None:
    assert "Circular dependency detected" in caller.call("workflow", {"steps": steps})["error"]


def test_a_workflow_can_go_on_after_a_failure(caller: Caller) -> None:
    failing = step("a", "echo", {"message": ""})
    assert caller.call("workflow", {"steps": [failing, SEVEN]})["status"] == "error"
    output = caller.call("workflow", {"steps": [failing, SEVEN], "continueOnError": True})["output"]
    assert set(output["results"]) == {"seven"}
    assert "message must be" in output["errors"]["a"]
