"""Members that callers do not give cannot be given in another form either."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from gateway.core.jsontext import decode, encode
from gateway.protocols.openapi.document.plan import Field
from tests.unit.protocols.openapi.document.converting import body_
from tests.unit.protocols.openapi.document.requesting import body_plan, plan_of, refusal, send

FORM = "application/x-www-form-urlencoded"
KINDS = {"json": "application/json", "form": FORM, "multipart": "multipart/form-data"}
GUARDED = {"body": "has a member that is, or is taken for, one that callers do not give"}


def plan(kind: str, **more: Any) -> Any:
    return body_plan(kind, KINDS[kind], **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guard", [{"fixed": {"/owner": "us"}}, {"hidden": ("/owner",)}], ids=["fixed", "hidden"])
def test_another_case_of_a_member_is_that_member(kind: str, guard: Any) -> None:
    for name in ("Owner", "OWNER", "oWNER"):
        assert refusal(plan(kind, **guard), {"body": {"a": "b", name: "them"}}) == GUARDED
    assert send(plan(kind, **guard), {"body": {"a": "b", "owners": "c", "own": "d"}}).body


@pytest.mark.parametrize("kind", ["form", "multipart"])
@pytest.mark.parametrize("guard", [{"fixed": {"/owner": "us"}}, {"hidden": ("/owner",)}], ids=["fixed", "hidden"])
def test_a_field_that_frameworks_put_there_is_that_member(kind: str, guard: Any) -> None:
    fields = ("owner[]", "owner[0]", "Owner[id]", "owner.id", " owner", "owner\0x", "owner[", "[owner]")
    for name in fields:
        assert refusal(plan(kind, **guard), {"body": {name: "them"}}) == GUARDED, name
    assert send(plan(kind, **guard), {"body": {"a[owner]": "x", "a.owner": "x", "owner_id": "x"}}).body


def test_members_inside_others_are_guarded_too() -> None:
    inner = {"fixed": {"/meta/owner_id": 1}, "hidden": ("/meta/role", "/rows/0/role")}
    for body in (
        {"meta": {"Owner_Id": 2}},
        {"Meta": {"x": 2}},
        {"meta": {"role": 2}},
        {"meta": {"ROLE": 2}},
        {"rows": [{"role": 1}]},
    ):
        assert refusal(plan("json", **inner), {"body": body}) == GUARDED, body
    sent = send(plan("json", **inner), {"body": {"meta": {"a": 1}, "rows": [{}, {"role": 1}], "role": 1}}).body
    assert decode(sent) == {"meta": {"a": 1, "owner_id": 1}, "rows": [{}, {"role": 1}], "role": 1}
    for name in ("meta[role]", "meta[Owner_Id]", "meta.role", "meta[role][]"):
        assert refusal(plan("form", **inner), {"body": {name: 2}}) == GUARDED, name
    exploded = {"extra": Field(style="form"), "deep": Field(style="deepObject")}
    hidden = {"hidden": ("/owner", "/deep[role]"), "fields": exploded}
    for body in ({"extra": {"owner": 1}}, {"extra": {"Owner[0]": 1}}, {"deep": {"role": 1}}, {"deep": {"Role": 1}}):
        assert refusal(plan("form", **hidden), {"body": body}) == GUARDED, body
    assert send(plan("form", **hidden), {"body": {"extra": {"x": 1}, "deep": {"x": 1}}}).body == b"x=1&deep%5Bx%5D=1"


def test_what_an_operator_hides_or_fixes_is_guarded_in_the_plan() -> None:
    schema = {"type": "object", "properties": {"owner": {}, "role": {}, "a": {}}}
    said = {"arguments": {"/body/owner": "us"}, "hide": ["/body/role"]}
    for kind, media_type in KINDS.items():
        found = body_({media_type: {"schema": schema}}, tool=said)
        assert found.body is not None
        # A form in which callers choose names could otherwise have another method run.
        assert found.body.hidden == (("/role",) if kind == "json" else ("/role", "/_method"))
        assert refusal(plan_of(method="POST", body=found.body), {"body": {"ROLE": 1}}) == GUARDED
    declared = body_({FORM: {"schema": {"type": "object", "properties": {"_method": {}}}}}).body
    assert declared is not None
    assert declared.hidden == ()


def test_a_body_of_very_many_values_is_looked_through_all_the_same() -> None:
    wide = {"rest": [[]] * 200, "Owner": 1}
    assert refusal(plan("json", hidden=("/owner",)), {"body": Raw(encode(wide))}) == GUARDED
