"""What a tool needs besides its arguments, and what of the caller's context it is given."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.catalogue.published import PublishedTool
from gateway.catalogue.requirements import check_requirements, grant
from gateway.core.errors import ErrorCode, GatewayError
from gateway.core.model import AuthorizationRequirement, CallContext, Requirements
from tests.unit.published import published

MAPS, POST = AuthorizationRequirement(id="maps", scopes=("read",)), AuthorizationRequirement(id="post")
URLS = {"maps": "https://maps.example/grant", "post": "https://post.example/grant"}
EVERYTHING = Requirements(authorization=(MAPS, POST), secrets=("key", "salt"), user_id=True)
FULL = CallContext(
    tokens={"maps": "t1", "post": "t2", "more": "t3"},
    secrets={"key": "s1", "salt": "s2", "more": "s3"},
    user_id="alice",
    user_info={"locale": "nb"},
)


def missing(tool: PublishedTool, context: CallContext) -> Any:
    with pytest.raises(GatewayError) as caught:
        check_requirements(tool, context)
    assert caught.value.code is ErrorCode.MISSING_REQUIREMENTS
    return caught.value.missing


def test_empty_texts_count_as_missing() -> None:
    empty = CallContext(tokens={"maps": "", "post": "t"}, secrets={"key": "", "salt": "s"}, user_id="")
    assert missing(published(requires=EVERYTHING, authorization_urls=URLS), empty) == {
        "authorization": [{"id": "maps", "url": URLS["maps"]}],
        "secrets": [{"id": "key"}],
        "user_id": True,
    }


def test_without_a_url_of_ours_the_tool_server_is_left_to_make_the_challenge() -> None:
    check_requirements(published(requires=Requirements(authorization=(MAPS,))), CallContext())
    only_post = published(requires=EVERYTHING, authorization_urls={"post": URLS["post"]})
    assert missing(only_post, CallContext(secrets=FULL.secrets, user_id="alice")) == {
        "authorization": [{"id": "post", "url": URLS["post"]}]
    }


def test_a_tool_that_declares_nothing_gets_only_the_user() -> None:
    user = CallContext(user_id="alice", user_info={"locale": "nb"})
    assert grant(published(), FULL) == user
    assert grant(published(requires=Requirements(user_id=True)), FULL) == user


def test_empty_tokens_and_secrets_are_not_passed_on() -> None:
    context = CallContext(tokens={"maps": "", "post": "t2"}, secrets={"key": ""})
    assert grant(published(requires=EVERYTHING), context) == CallContext(tokens={"post": "t2"})


def test_a_withheld_secret_that_the_route_supplies_is_given() -> None:
    tool = published(requires=EVERYTHING, withheld=frozenset({"salt"}), secrets={"salt": "ours"})
    assert grant(tool, FULL).secrets == {"key": "s1", "salt": "ours"}
