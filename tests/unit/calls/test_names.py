"""Names of calls: no two callers' ids collide, and names reveal nothing of what they stand for."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from gateway.calls.names import CallNames
from gateway.core.model import SINGLE_CALL_GROUP, CallContext, ToolCall, ToolRef
from gateway.core.sealing import Digester
from gateway.redisclient.store import MARKS
from gateway.state.common import check_digest

OLD, NEW = "the older key of these tests, long enough", "the newer key of these tests, long enough"
NAMES = CallNames(Digester([NEW], "calls"))
ALONE = CallNames(Digester([NEW], "calls"), alone=True)


def key(principal: str, asked: ToolCall, names: CallNames = NAMES) -> str:
    return names.keyed(principal, asked)[1]


def fingerprint(asked: ToolCall, names: CallNames = NAMES) -> str:
    return names.keyed("p", asked)[2]


def question(principal: str, asked: ToolCall) -> str:
    return NAMES.unkeyed(principal, asked)[2]


def call(tool: str = "A.B", version: str | None = None, call_id: str = "k", **more: Any) -> ToolCall:
    context = CallContext(**more.pop("context", {}))
    return ToolCall(
        ref=ToolRef(tool=tool, version=version), call_id=call_id, context=context, **{"arguments": {}} | more
    )


ASKED = [
    ("jwt:i:ada", call()),
    ("jwt:i:ad", call(call_id="ak")),
    ("jwt:i:bob", call()),
    ("jwt:i:\ud800", call()),
    ("jwt:i:ada", call(call_id="k2")),
    ("jwt:i:ada", call(call_id='k","nobody')),
    ("jwt:i:ada", call(context={"user_id": "u"})),
    ("jwt:i:ada", call(context={"user_id": "nobody"})),
    ("jwt:i:ada", call(context={"user_id": ""})),
    ("jwt:i:ada", call(context={"tokens": {"u": ""}})),
    ("jwt:i:ada", call(context={"tokens": {"u": "v"}})),
    ("jwt:i:ada", call(context={"tokens": {"u": "v", "w": "x"}})),
]
CONTENTS = [
    call(),
    call("A.C"),
    call(version="1.0.0"),
    call(version=""),
    call(arguments={"a": 1}),
    call(arguments={"a": 1.0}),
    call(arguments={"a": "1"}),
    call(arguments={"a": [1, 2]}),
    call(arguments={"a": [2, 1]}),
    call(arguments={"a": {"b": 10**400}}),
]


def test_who_asks_and_for_whom_is_part_of_the_key() -> None:
    keys = [key(principal, asked) for principal, asked in ASKED]
    assert all(one != other for one, other in combinations(keys, 2))
    check_digest(*keys)


@pytest.mark.parametrize("names", [NAMES, ALONE], ids=["shared", "alone"])
def test_what_is_asked_is_the_content_and_no_part_of_the_key(names: CallNames) -> None:
    prints = [fingerprint(asked, names) for asked in CONTENTS]
    assert all(one != other for one, other in combinations(prints, 2))
    check_digest(*prints)
    assert len({key("p", asked) for asked in CONTENTS}) == 1


@pytest.mark.parametrize("names", [NAMES, ALONE], ids=["shared", "alone"])
def test_the_order_of_members_is_not_asked_for(names: CallNames) -> None:
    one, other = {"a": {"x": 1, "y": 2}, "b": 3}, {"b": 3, "a": {"y": 2, "x": 1}}
    assert fingerprint(call(arguments=one), names) == fingerprint(call(arguments=other), names)
    tokens = [{"a": "1", "b": "2"}, {"b": "2", "a": "1"}]
    assert len({key("p", call(context={"tokens": each})) for each in tokens}) == 1


def test_a_call_without_a_user_is_found_by_its_id_alone() -> None:
    assert NAMES.keys_of_id("p", "k") == (key("p", call()),)
    assert NAMES.keys_of_id("p", "k") != (key("p", call(context={"user_id": "u"})),)


def test_a_call_for_a_user_is_found_by_its_id_and_that_user() -> None:
    assert NAMES.keys_of_id("p", "k", "u") == (key("p", call(context={"user_id": "u"})),)
    assert NAMES.keys_of_id("p", "k", "v") != NAMES.keys_of_id("p", "k", "u")


def test_names_under_older_keys_are_known_and_new_ones_come_first() -> None:
    before, after = CallNames(Digester([OLD], "calls")), CallNames(Digester([NEW, OLD], "calls"))
    asked = call(context={"user_id": "u"})
    for old, both in [
        (before.owners("p"), after.owners("p")),
        (before.keys_of_id("p", "k"), after.keys_of_id("p", "k")),
        (before.keys_of_request("p", "r"), after.keys_of_request("p", "r")),
    ]:
        assert len(both) == 2
        assert both[1:] == old
        assert both[0] != old[0]
    assert after.keyed("p", asked)[3] == (before.keyed("p", asked)[1:3],)
    assert after.keyed("p", asked)[:3] == NAMES.keyed("p", asked)[:3]
    assert after.of_request("p", "r", asked)[3] == (before.of_request("p", "r", asked)[1:3],)
    assert after.of_request("p", "r", asked)[:3] == NAMES.of_request("p", "r", asked)[:3]
    assert (NAMES.keyed("p", asked)[3], NAMES.keyed("p", asked)[0]) == ((), NAMES.owners("p")[0])


def test_all_keys_of_a_principal_begin_with_the_mark_of_its_partition() -> None:
    """Under whatever keys of the operator's; and principals are spread over all partitions."""
    one, other = (CallNames(Digester(keys, "calls"), partitions=64) for keys in ([NEW, OLD], [OLD]))
    marks = set()
    for principal in map(str, range(1000)):
        _, key, _, older = one.keyed(principal, call())
        keys = {key, older[0][0], one.unkeyed(principal, call())[1], other.keyed(principal, call())[1]}
        keys |= {*one.keys_of_id(principal, "k"), *one.keys_of_id(principal, "l", "u")}
        keys |= {*one.keys_of_request(principal, "r"), one.of_request(principal, "r", call())[1]}
        check_digest(*keys)
        (mark,) = {key[0] for key in keys}
        assert mark == one.mark(principal)
        marks.add(mark)
    assert marks == set(MARKS)
    assert NAMES.mark("p") == ""


def test_other_keys_make_other_names() -> None:
    other = CallNames(Digester([], "calls"))
    assert key("p", call(), other) != key("p", call())
    assert fingerprint(call(), other) != fingerprint(call())
    assert other.group("p", "g") != NAMES.group("p", "g")


def test_a_conversation_is_its_principals_own_and_one_without_a_name_is_new() -> None:
    assert NAMES.group("p", "g") == NAMES.group("p", "g")
    assert len({NAMES.group("p", "g"), NAMES.group("q", "g"), NAMES.group("p", "h"), NAMES.group("p", "")}) == 4
    assert len({NAMES.group("p", "g"), NAMES.group("p", "g", "u"), NAMES.group("p", "g", "v")}) == 3
    assert NAMES.group("p", None) != NAMES.group("p", None)
    assert NAMES.group("p", None).startswith(SINGLE_CALL_GROUP)


def test_a_question_is_who_asks_what_for_whom_whatever_the_call_is_named() -> None:
    asked = [*ASKED[:4], *((who, each) for who, each in ASKED if each.call_id == "k" and each.context != CallContext())]
    questions = [question(who, each) for who, each in asked] + [question("p", each) for each in CONTENTS]
    assert all(one != other for one, other in combinations(questions, 2))
    check_digest(*questions)
    assert question("p", call(call_id="other")) == question("p", call())
