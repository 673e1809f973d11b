"""Tools as breadcrumbs, which requests the runner answers, and how."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.unit.demo.rcrt_caller import REQUEST_TAGS, Caller

STOCK = {"echo", "random", "timer", "calculator", "json-transform", "workflow"}
REFUSED_AS_SHIPPED = {"calculator", "json-transform", "workflow"}


def tools(caller: Caller) -> dict[str, Any]:
    query = {"schema_name": "tool.code.v1", "tag": "workspace:tools", "limit": "200"}
    listed = caller.server.get("/breadcrumbs", params=query).json()
    found = [caller.full(item["id"]) for item in listed]
    return {breadcrumb["context"]["name"]: breadcrumb for breadcrumb in found}


def nothing_happens(caller: Caller, breadcrumb_id: str) -> None:
    """Waits until the runner has answered a later request, and finds nothing for the earlier one."""
    caller.call("echo", {"message": "later"})
    assert caller.find(breadcrumb_id) == []


def test_each_tool_is_a_breadcrumb_with_its_schemas(caller: Caller) -> None:
    found = tools(caller)
    assert set(found) == STOCK
    echo = found["echo"]
    assert (echo["semantic_version"], echo["description"]) == ("2.1.0", "Echoes a message.")
    assert echo["tags"] == ["tool", "tool:echo", "workspace:tools", "approved", "validated"]
    assert echo["context"]["input_schema"]["required"] == ["message"]
    assert echo["context"]["limits"]["timeout_ms"] == 1000
    assert "export async function execute(" in echo["context"]["code"]["source"]


def test_the_short_form_of_a_tool_has_no_code(caller: Caller) -> None:
    echo = tools(caller)["echo"]
    short = caller.server.get(f"/breadcrumbs/{echo['id']}").json()
    assert "code" not in short["context"]
    assert short["context"]["input_schema"] == echo["context"]["input_schema"]


def test_as_shipped_the_newer_edition_has_three_tools_approved(as_shipped: Caller) -> None:
    unapproved = {name for name, tool in tools(as_shipped).items() if "approved" not in tool["tags"]}
    assert unapproved == REFUSED_AS_SHIPPED
    context = as_shipped.call("calculator", {"expression": "1"})
    assert (context["status"], context["error"]) == ("error", "Error: Tool not found: calculator")


def test_the_newer_edition_loads_a_tool_once_an_event_says_that_it_is_approved(as_shipped: Caller) -> None:
    transform = tools(as_shipped)["json-transform"]
    given = {"data": {"a": 1}, "operation": "extract", "path": "a"}
    as_shipped.server.post(f"/breadcrumbs/{transform['id']}/approve").raise_for_status()
    assert as_shipped.call("json-transform", given)["status"] == "error"  # that event carries no tags
    as_shipped.server.patch(f"/breadcrumbs/{transform['id']}", json={"title": "seen"}).raise_for_status()
    assert as_shipped.call("json-transform", given)["output"] == {"result": 1, "operation": "extract"}


def test_the_older_edition_has_a_catalogue_that_lists_what_it_refuses_too(older: Caller) -> None:
    (found,) = older.server.get("/breadcrumbs?schema_name=tool.catalog.v1&include_context=true").json()
    assert found["tags"] == ["workspace:tools", "tool:catalog"]
    assert {tool["name"] for tool in found["context"]["tools"]} == STOCK
    assert all(tool["version"] == "1.0.0" and "description" not in tool for tool in found["context"]["tools"])
    assert not any("approved" in tool["tags"] for tool in tools(older).values())
    assert older.call("workflow", {"steps": []})["error"] == "Error: Tool not found: workflow"


def test_a_response_has_the_id_the_output_and_its_tag_twice(caller: Caller) -> None:
    request_id = caller.request("echo", {"message": "hi"}, requestedBy="tool-gateway")
    response = caller.response(request_id)
    assert response["title"] == "Response: echo"
    assert response["tags"] == ["workspace:tools", "tool:response", f"request:{request_id}", f"request:{request_id}"]
    context = response["context"]
    assert (context["request_id"], context["tool"], context["status"]) == (request_id, "echo", "success")
    assert (context["output"], context["requestedBy"]) == ({"echo": "hi"}, "tool-gateway")
    assert context["metadata"]["exitCode"] == 0
    assert caller.executions(request_id) == 1
    query = {"schema_name": "tool.response.v1", "tag": f"request:{request_id}", "include_context": "true"}
    assert caller.server.get("/breadcrumbs", params=query).json() == [response]


def test_the_older_edition_does_not_say_who_asked(older: Caller) -> None:
    assert "requestedBy" not in older.call("echo", {"message": "hi"}, requestedBy="tool-gateway")


def test_the_request_and_the_response_are_on_the_stream(caller: Caller) -> None:
    with caller.listening() as listener:
        request_id = caller.request("echo", {"message": "hi"})
        listener.wait(lambda listener: len(listener.events) >= 3)
        own = [event for event in listener.events if request_id in str(event.get("context"))]
    assert [event["schema_name"] for event in own] == ["tool.request.v1", "tool.response.v1"]
    assert own[1]["context"]["output"] == {"echo": "hi"}


def test_ids_of_language_models_get_another_tag(caller: Caller) -> None:
    request_id = f"llm-{uuid.uuid4().hex}"
    caller.request("echo", {"message": "hi"}, requestId=request_id)
    assert caller.response(request_id)["tags"][2:] == ["request:llm", f"request:{request_id}"]


def test_without_an_id_the_breadcrumb_is_answered(caller: Caller) -> None:
    asked = {"tool": "echo", "input": {"message": "hi"}}
    breadcrumb_id = caller.create("tool.request.v1", asked, REQUEST_TAGS).json()["id"]
    assert caller.response(breadcrumb_id)["context"]["output"] == {"echo": "hi"}


def test_an_id_that_is_no_string_fails_though_the_tool_ran(caller: Caller) -> None:
    number = uuid.uuid4().int % 10**9
    caller.request("echo", {"message": "hi"}, requestId=number)
    context = caller.response(str(number))["context"]
    assert context["status"] == "error"
    assert "startsWith" in context["error"]
    assert caller.executions(str(number)) == 1


@pytest.mark.parametrize("given", [None, "", 0, False])
def test_a_request_without_input_is_never_answered(caller: Caller, given: Any) -> None:
    breadcrumb = caller.create("tool.request.v1", {"tool": "echo", "input": given}, REQUEST_TAGS)
    nothing_happens(caller, breadcrumb.json()["id"])


@pytest.mark.parametrize(
    "tags", [["tool:request"], ["workspace:tools"], ["tool:request", "workspace:x"], [*REQUEST_TAGS, "health:check"]]
)
def test_a_request_with_other_tags_is_never_answered(caller: Caller, tags: list[str]) -> None:
    breadcrumb = caller.create("tool.request.v1", {"tool": "random", "input": {}}, tags)
    nothing_happens(caller, breadcrumb.json()["id"])


def test_a_request_that_is_changed_does_not_run_again(caller: Caller) -> None:
    asked = {"tool": "echo", "input": {"message": "hi"}}
    breadcrumb_id = caller.create("tool.request.v1", asked, REQUEST_TAGS).json()["id"]
    caller.response(breadcrumb_id)
    caller.server.patch(f"/breadcrumbs/{breadcrumb_id}", json={"title": "changed"}).raise_for_status()
    caller.call("echo", {"message": "later"})
    assert caller.executions(breadcrumb_id) == 1


def test_an_unknown_tool_is_answered_without_the_tag_of_the_request(caller: Caller) -> None:
    response = caller.response(caller.request("paint"))
    assert response["tags"] == ["workspace:tools", "tool:response", "error"]
    assert response["context"]["error"].startswith("Tool paint not found. Only tool.code.v1")
    assert "execution_time_ms" not in response["context"]


def test_the_newer_edition_adds_a_stack_and_an_error_breadcrumb(caller: Caller) -> None:
    request_id = caller.request("echo", {"message": ""})
    response = caller.response(request_id)
    assert response["title"] == "Error: echo"
    assert response["tags"] == ["workspace:tools", "tool:response", f"request:{request_id}"]
    error = response["context"]["error"]
    assert error.startswith("Error: Deno exited with code 1\nTool Error: message must be a non-empty string\nStack: ")
    assert response["context"]["execution_time_ms"] == 0
    reports = caller.server.get("/breadcrumbs?tag=tool:error&include_context=true").json()
    assert any(report["context"]["request_id"] == request_id for report in reports)


def test_the_older_edition_loses_the_message(older: Caller) -> None:
    assert older.call("echo", {"message": ""})["error"] == "Error: Tool execution failed"
    assert older.server.get("/breadcrumbs?tag=tool:error").json() == []


def test_a_stored_agent_response_runs_nothing(caller: Caller) -> None:
    request_id = f"gw-{uuid.uuid4().hex}"
    item = {"tool": "echo", "input": {"message": "hi"}, "requestId": request_id, "return_to_llm": True}
    caller.create("agent.response.v1", {"message": "", "tool_requests": [item]}, ["agent:response"])
    nothing_happens(caller, request_id)


def test_by_the_standard_each_item_of_an_agent_response_is_run(standard: Caller) -> None:
    ids = [f"gw-{uuid.uuid4().hex}" for _ in range(2)]
    items = [{"tool": "echo", "input": {"message": i}, "requestId": i, "return_to_llm": True} for i in ids]
    malformed: list[Any] = [None, {}, {"tool": "echo"}]
    context = {"message": "calling", "tool_requests": [*items, *malformed]}
    standard.create("agent.response.v1", context, ["agent:response", "session:1"]).raise_for_status()
    assert [standard.response(i)["context"]["output"] for i in ids] == [{"echo": i} for i in ids]
    requests = standard.server.get("/breadcrumbs?schema_name=tool.request.v1&include_context=true").json()
    assert all(request["tags"] == REQUEST_TAGS for request in requests)
    assert {"return_to_llm": True}.items() <= requests[-1]["context"].items()


@pytest.mark.parametrize("items", [None, {}, "echo", 7])
def test_an_agent_response_without_a_list_asks_for_nothing(standard: Caller, items: Any) -> None:
    assert standard.create("agent.response.v1", {"tool_requests": items}).status_code == 200
    assert standard.call("echo", {"message": "hi"})["status"] == "success"


def test_at_most_five_tools_run_at_a_time(standard: Caller) -> None:
    ids = [f"gw-{uuid.uuid4().hex}" for _ in range(6)]
    items = [{"tool": "timer", "input": {"seconds": 0.2}, "requestId": request_id} for request_id in ids]
    standard.create("agent.response.v1", {"tool_requests": items}).raise_for_status()  # all at the same moment
    answers = [standard.response(request_id)["context"] for request_id in ids]
    assert max(each["execution_time_ms"] - each["metadata"]["duration_ms"] for each in answers) >= 190  # time in line
