"""What operations take, as arguments of tools."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from gateway.core.jsontext import encode
from gateway.protocols.openapi.document.inputs import Input
from gateway.protocols.openapi.document.plan import Field, OperationError
from gateway.protocols.openapi.document.tools import decoder, read_operations
from gateway.schemas import CompiledSchema
from tests.unit.protocols.openapi.document.converting import body_, input_
from tests.unit.protocols.openapi.document.documents import BOUNDS, root, terms
from tests.unit.protocols.openapi.document.requesting import plan_of, refusal, send

STRING = {"type": "string"}
JSON = {"application/json": {"schema": {"type": "object", "properties": {"a": STRING}, "required": ["a"]}}}


def parameter(name: str, where: str = "query", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": STRING, **more}


def names(found: Input) -> list[str]:
    return list(found.schema["properties"])


def wired(found: Input) -> dict[str, tuple[str, str]]:
    return {one.argument: (one.where, one.name) for one in found.parameters}


def is_valid(found: Input, value: Any) -> bool:
    return CompiledSchema.compile(found.schema).is_valid(value)


def test_openapi_17_a_name_in_the_path_and_in_the_body() -> None:
    node = {"parameters": [parameter("id", "path")], "requestBody": {"content": JSON, "required": True}}
    found = input_(node, "/things/{id}", "put")
    assert names(found) == ["id", "body"]
    assert found.schema["required"] == ["id", "body"]
    assert is_valid(found, {"id": "1", "body": {"a": "2", "id": "3"}})
    assert not is_valid(found, {"id": "1", "body": {}})


def test_openapi_18_19_names_that_stand_for_several_parameters() -> None:
    listed = [
        parameter("id", "cookie"),
        parameter("id", "header"),
        parameter("id"),
        parameter("id", "path", required=False),
        parameter("query_id"),
        parameter("body"),
    ]
    found = input_({"parameters": listed}, "/things/{id}")
    told = wired(found)
    assert names(found) == ["id", *[one.argument for one in found.parameters][1:]]
    assert {name: told[name] for name in ("id", "header_id", "cookie_id", "query_body")} == {
        "id": ("path", "id"),
        "header_id": ("header", "id"),
        "cookie_id": ("cookie", "id"),
        "query_body": ("query", "body"),
    }
    assert sorted(told.values()) == sorted({(one["in"], one["name"]) for one in listed})
    assert found.schema["required"] == ["id"]  # what stands in the path always is
    turned = input_({"parameters": listed[::-1]}, "/things/{id}")
    assert wired(turned) == told


NAMES = [  # on the wire, as an argument
    ("filter[userId]", "filter_userId"),
    ("$top", "top"),
    ("X.Tenant-Id", "X.Tenant-Id"),
    ("a" * 64, "a" * 64),
    ("a b", "a_b"),
    ("größe", "gr__e"),
]


@pytest.mark.parametrize(("name", "argument"), NAMES)
def test_openapi_20_names_that_models_may_write(name: str, argument: str) -> None:
    assert wired(input_({"parameters": [parameter(name)]})) == {argument: ("query", name)}


def test_openapi_20_names_that_are_too_long_or_of_no_letters_or_alike() -> None:
    listed = [parameter("b" * 65), parameter("b" * 66), parameter("$"), parameter("c[d]"), parameter("c_d")]
    found = input_({"parameters": listed})
    assert all(len(name) <= 64 and name.isascii() for name in names(found))
    told = {wire: name for name, (_, wire) in wired(found).items()}
    assert len(told) == 5
    assert told["c_d"] == "c_d"  # the one that needs no other name
    assert told["b" * 65].startswith("b" * 55 + "_")


BODIES: list[tuple[Any, Any, Any]] = [  # a schema, a body, what is none
    ({"type": "array", "items": STRING}, ["a"], [1]),
    ({"type": "integer"}, 0, "0"),
    ({"type": "object", "nullable": True}, None, []),
    ({}, {"any": [None]}, ...),
]


@pytest.mark.parametrize(("schema", "good", "bad"), BODIES)
def test_openapi_21_bodies_that_are_no_objects_with_members(schema: Any, good: Any, bad: Any) -> None:
    found = body_({"application/json": {"schema": schema}}, body={"required": True})
    assert is_valid(found, {"body": good})
    assert bad is ... or not is_valid(found, {"body": bad})
    assert not is_valid(found, {})


def test_openapi_22_unknown_arguments_are_refused() -> None:
    found = input_({"parameters": [parameter("q")]})
    assert found.schema == {"type": "object", "properties": {"q": STRING}, "additionalProperties": False}
    assert not is_valid(found, {"Q": "a"})


def test_openapi_24_null_is_a_value_of_its_own() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}
    found = body_({"application/json": {"schema": schema}})
    assert [is_valid(found, {"body": body}) for body in ({"a": None}, {}, {"a": 1})] == [True, True, False]


def test_openapi_27_headers_that_are_not_the_callers() -> None:
    ignored = [
        "accept",
        "Content-Type",
        "AUTHORIZATION",
        "Host",
        "Proxy-A",
        "X-Forwarded-For",
        "Sec-Fetch",
        "traceparent",
    ]
    listed = [parameter(name, "header", required=True) for name in [*ignored, "X-Own", "X-Key", "Retry-Key"]]
    listed += [parameter("key"), parameter("key", "cookie"), parameter("Authorization")]
    found = input_(
        {"parameters": listed},
        excluded=[("header", "x-key"), ("query", "key")],
        terms={"key_header": "Retry-Key"},
    )
    assert names(found) == ["Authorization", "X-Own", "key"]
    assert wired(found)["key"] == ("cookie", "key")
    assert found.not_inferrable == ("X-Own",)
    assert found.warnings == ()


OVERRIDING = [
    "X-HTTP-Method-Override",
    "X-Original-URL",
    "x-rewrite-url",
    "X_Real_IP",
    "True-Client-IP",
    "X-HTTP-Method",
]


def test_headers_that_make_a_request_mean_another_are_the_operators() -> None:
    listed = [parameter(name, "header", required=True) for name in OVERRIDING] + [parameter("_method")]
    listed += [
        parameter("X_Forwarded_For", "header"),
        parameter("Content_Type", "header"),
        parameter("X-Page", "header"),
    ]
    found = input_({"parameters": listed})
    assert names(found) == ["X-Page"]
    assert [one.argument for one in found.parameters] == ["X-Page"]
    assert len(found.warnings) == len(OVERRIDING) + 1
    fixed = {"arguments": {"X-HTTP-Method-Override": "GET"}, "hide": ["_method"]}
    given = input_({"parameters": listed}, method="post", tool=fixed)
    assert names(given) == ["X-Page"]
    assert {one.name: one.fixed for one in given.parameters} == {
        "_method": None,
        "X-HTTP-Method-Override": "GET",
        "X-Page": UNSET,
    }


def test_a_key_against_repeating_is_the_operators() -> None:
    keyed = {"parameters": [parameter("Idempotency-Key", "header", required=True)]}
    assert "'idempotency_key' is set" in "".join(input_(keyed).warnings)
    assert input_(keyed, terms={"key_header": "Idempotency-Key"}).warnings == ()


def test_openapi_28_fixed_and_hidden_arguments() -> None:
    listed = [
        parameter("owner", "path"),
        parameter("page"),
        parameter("sort"),
        parameter("X-Api", "header", required=True),
    ]
    body = {
        "required": ["title", "by"],
        "properties": {"title": STRING, "by": STRING, "more": {"$ref": "#/components/schemas/More"}, "x": STRING},
    }
    more = {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        "required": ["a"],
        "additionalProperties": False,
    }
    node = {"parameters": listed, "requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}
    found = input_(
        node,
        "/{owner}/things",
        "post",
        terms={"arguments": {"owner": "acme", "X-Api": "1", "nobody": "has", "/body/none": 1, "/body/x": None}},
        tool={"arguments": {"page": 3, "/body/by": "bot", "/body/more/a": "c"}, "hide": ["sort", "/body/more/b"]},
        components={"schemas": {"More": more}},
    )
    assert names(found) == ["body"]
    assert {one.argument: one.fixed for one in found.parameters} == {
        "owner": "acme",
        "page": 3,
        "sort": None,  # so that it is not sent
        "X-Api": "1",
    }
    assert found.body is not None
    assert found.body.fixed == {"/by": "bot", "/more/a": "c", "/x": None}
    shown = found.schema["properties"]["body"]
    assert list(shown["properties"]) == ["title", "more"]
    assert "properties" not in shown["properties"]["more"]
    assert shown["required"] == ["title"]
    assert found.not_inferrable == ()
    assert not is_valid(found, {"page": 3, "body": {"title": "t"}})
    for unseen in ({"by": "me"}, {"x": ""}, {"more": {"a": "c"}}, {"more": {"b": "c"}}):
        assert not is_valid(found, {"body": {"title": "t", **unseen}})
    assert is_valid(found, {"body": {"title": "t", "more": {}, "other": 1}})


def test_openapi_28_a_body_of_fixed_members_alone_may_be_left_out() -> None:
    found = body_(JSON, body={"required": True}, tool={"arguments": {"/body/a": "b"}})
    assert "required" not in found.schema
    assert is_valid(found, {})
    whole = body_(JSON, body={"required": True}, tool={"arguments": {"body": {"a": "b"}}})
    assert names(whole) == []
    assert whole.body is not None
    assert whole.body.fixed == {"": {"a": "b"}}
    assert body_(JSON, tool={"hide": ["body"]}).body is None


def test_openapi_28_an_object_that_may_have_any_member_takes_no_fixed_one() -> None:
    found = body_({"application/json": {"schema": {"type": "object"}}}, tool={"arguments": {"/body/a": 1}})
    assert is_valid(found, {"body": {"b": 1}})
    assert not is_valid(found, {"body": {"a": 1}})


UNFIT_TERMS: list[tuple[Any, str]] = [
    ({"arguments": {"onwer": 1}}, "the argument 'onwer', which the operation does not have; it has owner, page"),
    ({"hide": ["sort"]}, "the argument 'sort', which the operation does not have"),
    ({"hide": ["owner"]}, "hides the argument 'owner', which is required"),
    ({"hide": ["body"]}, "hides the body, which is required"),
    ({"arguments": {"/body/b": 1}}, "'b' in its body, which has no such member"),
    ({"hide": ["/body/a/b"]}, "'b' in its body, which has no such member"),
    ({"hide": ["/body/a"]}, "hides 'a' in its body, which is required"),
    ({"media_type": "text/csv"}, "media_type is 'text/csv'; the document offers application/json"),
]


@pytest.mark.parametrize(("tool", "reason"), UNFIT_TERMS)
def test_terms_that_an_operation_cannot_keep_leave_it_out(tool: Any, reason: str) -> None:
    node = {
        "parameters": [parameter("owner", "path"), parameter("page")],
        "requestBody": {"required": True, "content": JSON},
    }
    with pytest.raises(OperationError, match=reason):
        input_(node, "/{owner}", "post", tool=tool)


def test_openapi_29_an_optional_body_may_be_left_out() -> None:
    found = body_(JSON, body={"description": "What it is."})
    assert is_valid(found, {})
    assert found.schema["properties"]["body"]["description"] == "What it is."
    assert found.body is not None
    assert not found.body.required
    assert input_({}, method="post").body is None
    assert body_({}).body is None


def test_the_description_of_a_parameter_is_its_own() -> None:
    listed = [
        parameter("a", schema={"$ref": "#/components/schemas/X"}, description="Which."),
        parameter("b", schema={"$ref": "#/components/schemas/X"}, deprecated=True, required=True),
        parameter("c", deprecated=True, description="Old."),
        parameter("d", schema={"type": "string", "description": "Its type's."}),
    ]
    found = input_({"parameters": listed}, components={"schemas": {"X": {"type": "string", "description": "x"}}})
    properties = found.schema["properties"]
    assert properties["a"] == {"$ref": "#/$defs/X", "description": "Which."}
    assert properties["b"] == {"$ref": "#/$defs/X", "description": "(deprecated)"}
    assert properties["c"]["description"] == "Old. (deprecated)"
    assert properties["d"]["description"] == "Its type's."
    assert found.schema["required"] == ["b"]
    assert is_valid(found, {"b": "v"})


PLACES: list[tuple[str, Any, list[str], str]] = [  # a path, its parameters, the arguments, a warning
    ("/a/{b}/{b}", [parameter("b", "path")], ["b"], ""),
    ("/a/{b}", [], ["b"], "no parameter of that name"),
    ("/a", [parameter("b", "path")], [], "stands nowhere in its path"),
    ("/a", [{"name": "b", "in": "query"}], ["b"], "has no schema"),
    ("/a", [parameter("b", style="deepObject")], [], "is left out: deepObject"),
    ("/a", [parameter("b", schema={"type": "array", "items": {"type": "array"}})], [], "no form for values inside"),
    (
        "/a",
        [parameter("b", schema={"properties": {"c": {"type": "object"}}, "required": ["c"]})],
        [],
        "no form for values inside",
    ),
    ("/a", [parameter("b", schema={"properties": {"c": {"type": "object"}}})], ["b"], ""),
    ("/a", [parameter("b", style="deepObject", schema={"properties": {"c": {"type": "object"}}})], ["b"], ""),
    ("/a", [parameter("b", style="pipeDelimited", explode=True, schema={"type": "object"})], [], "no form for objects"),
    ("/a", [{"name": "b", "in": "query", "content": {"application/xml": {}}}], [], "media type is 'application/xml'"),
    ("/a", [{"name": "b", "in": "query", "content": {"application/json": {"schema": STRING}}}], ["b"], ""),
]


@pytest.mark.parametrize(("path", "listed", "arguments", "warning"), PLACES)
def test_parameters_that_cannot_be_sent_as_they_are(path: str, listed: Any, arguments: Any, warning: str) -> None:
    found = input_({"parameters": listed}, path)
    assert names(found) == arguments
    assert warning in "".join(found.warnings)
    assert bool(found.warnings) == bool(warning)


LEFT_OUT: list[tuple[Any, str]] = [
    ([parameter("b", style="deepObject", required=True)], "'b' cannot be sent: deepObject"),
    ([parameter("X: y", "header")], "cannot be the name of a header"),
    ([parameter("a;b", "cookie")], "cannot be the name of a cookie"),
    ([parameter("b", schema={"$ref": "#/components/schemas/None"}, required=True)], "which the document does not have"),
]


@pytest.mark.parametrize(("listed", "reason"), LEFT_OUT)
def test_an_operation_that_cannot_be_called_says_why(listed: Any, reason: str) -> None:
    with pytest.raises(OperationError, match=reason):
        input_({"parameters": listed})


def test_the_whole_query_is_one_argument() -> None:
    whole = {"name": "q", "in": "querystring", "content": {"application/x-www-form-urlencoded": {"schema": {}}}}
    found = input_({"parameters": [whole]}, version="3.2.0")
    assert wired(found) == {"query": ("querystring", "q")}
    with pytest.raises(OperationError, match="the whole query"):
        input_({"parameters": [whole, parameter("a")]}, version="3.2.0")


def test_how_parameters_are_sent() -> None:
    array = {"type": "array", "items": STRING}
    listed = [
        parameter("a", "path", style="matrix", explode=True),
        parameter("b"),
        parameter("c", style="pipeDelimited", schema=array),
        parameter("d", style="spaceDelimited", explode=True, schema=array),
        parameter("e", style="deepObject", schema={"type": "object"}, allowReserved=True),
        parameter("f", "header", schema=array),
        parameter("g", "cookie"),
        {"name": "h", "in": "query", "content": {"Application/JSON; charset=utf-8": {"schema": {"type": "object"}}}},
    ]
    found = input_({"parameters": listed}, "/{a}", terms={"deep_arrays": "brackets"}, tool={"encoded_slashes": ["a"]})
    told = {one.argument: one for one in found.parameters}
    assert {name: (one.style, one.explode) for name, one in told.items()} == {
        "a": ("matrix", True),
        "b": ("form", True),
        "c": ("pipeDelimited", False),
        "d": ("form", True),
        "e": ("deepObject", False),
        "f": ("simple", False),
        "g": ("form", True),
        "h": ("form", True),
    }
    assert (told["a"].required, told["a"].encoded_slashes, told["b"].encoded_slashes) == (True, True, False)
    assert (told["e"].allow_reserved, told["e"].deep_arrays, told["b"].deep_arrays) == (True, "brackets", "repeat")
    assert told["h"].media_type == "application/json"


CHOICES = [  # what is offered, what is taken, of which kind
    (["text/plain", "application/json"], "application/json", "json"),
    (["application/xml", "application/vnd.a+json; v=1"], "application/vnd.a+json; v=1", "json"),
    (["multipart/form-data", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded", "form"),
    (["application/pdf", "application/octet-stream"], "application/octet-stream", "bytes"),
    (["Application/JSON; charset=utf-8"], "Application/JSON; charset=utf-8", "json"),
    (["*/*"], "application/json", "json"),
    (["text/*"], "text/plain", "text"),
    (["application/x-ndjson"], "application/x-ndjson", "lines"),
    (["image/png", "text/csv"], "image/png", "bytes"),
    (["text/xml"], "text/xml", "text"),
]


@pytest.mark.parametrize(("offered", "media_type", "kind"), CHOICES)
def test_one_media_type_is_chosen(offered: list[str], media_type: str, kind: str) -> None:
    found = body_({name: {} for name in offered})
    assert found.body is not None
    assert (found.body.media_type, found.body.kind) == (media_type, kind)


def test_the_operator_chooses_another_media_type() -> None:
    found = body_({"application/json": {}, "text/plain": {"schema": STRING}}, tool={"media_type": "Text/Plain"})
    assert found.body is not None
    assert (found.body.media_type, found.schema["properties"]["body"]) == ("text/plain", STRING)


NO_BODIES: list[tuple[Any, str]] = [
    ({"application/xml": {"schema": {"type": "object"}}}, "a value written as application/xml"),
    ({"multipart/mixed": {}}, "as a form only"),
    ({"multipart/form-data": {"schema": {"type": "array"}}}, "as a form only"),
    ({"text/\r\nX: y": {}}, "cannot be sent"),
    ({"image/*": {}}, "cannot be sent"),
]


@pytest.mark.parametrize(("content", "reason"), NO_BODIES)
def test_a_body_that_is_not_made_leaves_the_operation_out(content: Any, reason: str) -> None:
    with pytest.raises(OperationError, match=reason):
        body_(content)


def test_files_are_given_in_base64() -> None:
    schemas = {
        "Upload": {"allOf": [{"$ref": "#/components/schemas/File"}, {"type": "object", "required": ["many"]}]},
        "File": {
            "type": "object",
            "properties": {
                "file": {"type": "string", "format": "binary", "description": "The file."},
                "many": {"type": "array", "items": {"type": "string", "format": "binary"}, "maxItems": 2},
                "maybe": {"anyOf": [{"type": "string", "contentMediaType": "image/png"}, {"type": "null"}]},
                "raw": {},
                "note": STRING,
                "meta": {"type": "object"},
            },
        },
    }
    encoding = {
        "raw": {"contentType": "application/octet-stream"},
        "meta": {"contentType": "application/json", "headers": {"X-A": {"schema": {"enum": ["1"]}}, "X-B": {}}},
        "note": {"contentType": "text/plain\r\nX: y"},
    }
    content = {
        "multipart/form-data; boundary=x": {"schema": {"$ref": "#/components/schemas/Upload"}, "encoding": encoding}
    }
    found = body_(content, components={"schemas": schemas})
    assert found.body is not None
    assert (found.body.kind, found.body.media_type) == ("multipart", "multipart/form-data")
    assert found.body.fields == {
        "file": Field(is_binary=True),
        "many": Field(is_binary=True),
        "maybe": Field(is_binary=True),
        "raw": Field(is_binary=True, content_type="application/octet-stream"),
        "meta": Field(content_type="application/json", headers={"X-A": "1"}),
    }
    whole = {"base64": "YQ==", "filename": "a.txt", "content_type": "text/plain"}
    good: list[Any] = [{"many": []}, {"file": whole, "many": ["YQ==", whole]}, {"raw": "YQ==", "maybe": "", "many": []}]
    bad: list[Any] = [
        {"file": whole},
        {"file": {"filename": "a"}, "many": []},
        {"many": ["", "", ""]},
        {"file": 1, "many": []},
    ]
    assert [value for value in good if not is_valid(found, {"body": value})] == []
    assert [value for value in bad if is_valid(found, {"body": value})] == []


def test_the_members_of_a_form_keep_their_styles() -> None:
    encoding = {
        "a": {"style": "pipeDelimited"},
        "b": {"explode": False},
        "c": {"style": "strange"},
        "d": {"contentType": "x"},
    }
    properties = {name: {"type": "array", "items": STRING} for name in "abcd"}
    form = {"schema": {"type": "object", "properties": properties}, "encoding": encoding}
    found = body_({"application/x-www-form-urlencoded": form})
    assert found.body is not None
    assert found.body.fields == {
        "a": Field(style="pipeDelimited", explode=False),
        "b": Field(style="form", explode=False),
        "c": Field(style="form", explode=True),
    }


def test_lines_are_an_array_of_what_each_is() -> None:
    row = {"type": "object"}
    for described in ({"schema": row}, {"schema": {"type": "array", "items": row}}, {"itemSchema": row}):
        found = body_({"application/jsonl": described}, version="3.2.0")
        assert found.schema["properties"]["body"] == {"type": "array", "items": row}


def test_bytes_and_texts_are_strings() -> None:
    png = body_({"image/png": {"schema": {"type": "string", "format": "binary", "description": "It."}}})
    assert png.schema["properties"]["body"] == {"type": "string", "contentEncoding": "base64", "description": "It."}
    text = body_({"text/plain": {"schema": {"enum": ["a"]}}})
    assert text.schema["properties"]["body"] == {"type": "string", "enum": ["a"]}


def test_a_body_with_a_method_that_usually_has_none_is_told() -> None:
    node = {"requestBody": {"content": JSON}}
    assert "takes a body with DELETE" in "".join(input_(node, method="delete").warnings)
    assert input_(node, method="post").warnings == ()


def test_a_schema_that_is_too_large_loses_descriptions_and_then_is_refused() -> None:
    def content(count: int, description: str) -> Any:
        deep = {f"m{n}": {"type": "string", "description": description} for n in range(count)}
        inner = {"type": "object", "properties": {"c": {"type": "object", "properties": deep}}}
        schema = {"type": "object", "description": "Kept.", "properties": {"a": {**inner, "description": "Kept."}}}
        return {"application/json": {"schema": schema}}

    found = body_(content(100, "d" * 900))
    assert "descriptions of inner members" in "".join(found.warnings)
    body = found.schema["properties"]["body"]
    assert body["description"] == body["properties"]["a"]["description"] == "Kept."
    assert body["properties"]["a"]["properties"]["c"]["properties"]["m1"] == STRING
    with pytest.raises(OperationError, match="65536 are allowed"):
        body_(content(3_000, ""))


def test_a_body_that_stands_inside_itself_is_refused() -> None:
    schemas = {"A": {"allOf": [{"$ref": "#/components/schemas/A"}], "properties": {"f": {"format": "binary"}}}}
    content = {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/A"}}}
    with pytest.raises(OperationError, match="inside itself"):
        body_(content, components={"schemas": schemas})


def test_the_size_of_a_schema_is_bounded_by_the_operator_alone() -> None:
    members = {f"member{n}": {"type": "string", "enum": ["x" * 900]} for n in range(150)}
    content = {"application/json": {"schema": {"type": "object", "properties": members}}}
    large = {"bounds": replace(BOUNDS, max_schema_bytes=256 * 1024)}
    assert "member149" in body_(content, terms=large).schema["properties"]["body"]["properties"]
    with pytest.raises(OperationError, match=r"65536 are allowed \(discovery.max_schema\)"):
        body_(content)


NOWHERE = {"$ref": "#/components/schemas/Nowhere"}


def test_a_reference_to_nothing_costs_only_the_member_that_has_it() -> None:
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": STRING,
            "gone": NOWHERE,
            "list": {"type": "array", "items": NOWHERE},
            "map": {"type": "object", "additionalProperties": NOWHERE},
            "either": {"oneOf": [NOWHERE, STRING]},
            "inner": {"$ref": "#/components/schemas/Inner"},
        },
    }
    inner = {"type": "object", "properties": {"a": NOWHERE, "b": STRING}}
    components = {"schemas": {"Inner": inner, "Chain": NOWHERE}}
    for version in ("3.0.3", "3.1.0"):
        found = body_({"application/json": {"schema": schema}}, version=version, components=components)
        properties = found.schema["properties"]["body"]["properties"]
        assert properties["gone"] == {}
        assert (properties["list"]["items"], properties["map"]["additionalProperties"]) == ({}, {})
        assert properties["either"] == {"anyOf": [STRING]}
        assert found.schema["$defs"]["Inner"]["properties"] == {"a": {}, "b": STRING}
    listed = [parameter("a"), {**parameter("b"), "schema": NOWHERE}, {**parameter("c"), "schema": {"allOf": [NOWHERE]}}]
    found = input_({"parameters": listed, "requestBody": {"content": {"application/json": {"schema": NOWHERE}}}})
    assert (names(found), [one.name for one in found.parameters], found.body) == (["a"], ["a"], None)
    assert len([text for text in found.warnings if "is left out: It refers to" in text]) == 3


@pytest.mark.parametrize("gone", [NOWHERE, {"$ref": "#/components/schemas/Chain"}, {"allOf": [NOWHERE]}])
def test_a_reference_to_nothing_in_what_is_required_leaves_the_operation_out(gone: Any) -> None:
    schema = {"type": "object", "required": ["gone"], "properties": {"gone": gone}}
    components = {"schemas": {"Chain": NOWHERE}}
    with pytest.raises(OperationError, match="Nowhere"):
        body_({"application/json": {"schema": schema}}, body={"required": True}, components=components)
    with pytest.raises(OperationError, match="Nowhere"):
        body_({"application/json": {"schema": gone}}, body={"required": True}, components=components)
    with pytest.raises(OperationError, match="Nowhere"):
        input_({"parameters": [{**parameter("a"), "schema": gone, "required": True}]}, components=components)


def test_members_that_stand_elsewhere_are_those_of_the_object() -> None:
    schemas = {"Members": {"a": STRING, "id": {"readOnly": True}}}
    named = {"type": "object", "properties": {"$ref": "#/components/schemas/Members"}}
    body = body_({"application/json": {"schema": named}}, components={"schemas": schemas}).schema["properties"]["body"]
    assert body["properties"] == {"a": STRING}


def test_what_a_path_has_as_a_query_is_in_all_requests_and_no_argument() -> None:
    listed = [
        parameter("action", required=True),
        parameter("page"),
        {**parameter("more"), "schema": {"type": "object"}},
    ]
    found = input_({"parameters": listed}, "/a/x?action=list&v=%31 #List")
    assert names(found) == ["page", "more"]
    paths = {
        "/a/x?action=list&v=%31 #List": {"get": {"parameters": listed, "responses": {}}},
        "/a/x?action=drop": {"get": {"responses": {}}},
        "/a#One": {"get": {"responses": {}}},
        "/a#Two": {"get": {"responses": {}}},
    }
    _, *parts = read_operations(encode(terms()), encode(root(paths)))
    read = decoder()
    tools = {tool.remote_id.partition(" ")[2]: tool for part in parts for tool in read(part)}
    assert len({tool.tool for tool in tools.values()}) == 4

    def path(key: str, arguments: Any) -> str:
        return send(tools[key].plan, arguments).path

    assert path("/a/x?action=list&v=%31 #List", {"page": "2"}) == "/a/x?action=list&v=%31%20&page=2"
    assert path("/a/x?action=drop", {}) == "/a/x?action=drop"
    assert (path("/a#One", {}), path("/a#Two", {})) == ("/a", "/a")
    for name in ("action", "Action", "action[]", "v"):
        refused = refusal(tools["/a/x?action=list&v=%31 #List"].plan, {"more": {name: "drop"}})
        assert refused == {"more": "has a member with the name of another parameter"}


def test_names_that_differ_in_punctuation_only_are_told_apart() -> None:
    listed = [{**parameter(name), "description": "The day."} for name in ("From<", "From>", "From", "$top")]
    found = input_({"parameters": listed})
    told = {name: one["description"] for name, one in found.schema["properties"].items()}
    by_wire = {one.name: told[one.argument] for one in found.parameters}
    assert by_wire == {
        "From<": "The day. (sent as From<)",
        "From>": "The day. (sent as From>)",
        "From": "The day.",
        "$top": "The day. (sent as $top)",
    }


def test_arguments_have_the_names_that_the_operator_gives_them() -> None:
    listed = [parameter("From<"), parameter("From>", required=True), parameter("id", "path"), parameter("owner")]
    said = {"rename": {"From<": "before", "From>": "after", "id": "owner", "body": "issue"}, "hide": ["owner"]}
    node = {"parameters": listed, "requestBody": {"required": True, "content": JSON}}
    found = input_(node, "/a/{id}", "post", tool=said | {"encoded_slashes": ["id"]})
    assert set(names(found)) == {"before", "after", "owner", "issue"}
    assert set(found.schema["required"]) == {"owner", "after", "issue"}
    assert "description" not in found.schema["properties"]["before"]
    plan = plan_of(*found.parameters, path="/a/{id}", method="POST", body=found.body)
    request = send(plan, {"before": "1", "after": "2", "owner": "7/8", "issue": {"a": "x"}})
    assert (request.path, request.body) == ("/a/7%2F8?From%3C=1&From%3E=2", b'{"a":"x"}')
    assert refusal(plan, {"owner": "..", "after": "1", "issue": {}}).keys() == {"owner"}
    assert refusal(plan, {"owner": "7"}).keys() == {"after", "issue"}
    swapped = input_({"parameters": listed[:2]}, tool={"rename": {"From": "query_From", "query_From": "From"}})
    assert {one.argument for one in swapped.parameters} == {"From", "query_From"}


RENAMED: list[tuple[Any, str]] = [
    ({"rename": {"nix": "a"}}, "entry under tools names the argument 'nix', which the operation does not have"),
    ({"rename": {"b": "c"}}, "two of its arguments the name 'c'"),
    ({"rename": {"b": "body"}}, "two of its arguments the name 'body'"),
    ({"rename": {"b": "x"}, "hide": ["b"]}, "renames the argument 'b', which callers do not see"),
]


@pytest.mark.parametrize(("said", "reason"), RENAMED)
def test_names_that_do_not_fit_leave_an_operation_out(said: Any, reason: str) -> None:
    node = {"parameters": [parameter("b"), parameter("c")], "requestBody": {"content": JSON}}
    with pytest.raises(OperationError, match=reason):
        input_(node, method="post", tool=said)


OBJECT = {"schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
PATCHES: list[tuple[list[str], Any, str]] = [  # types in the order of the document, a schema, the type that is sent
    (["application/json-patch+json", "application/merge-patch+json"], OBJECT, "application/merge-patch+json"),
    (
        ["application/json-patch+json", "application/strategic-merge-patch+json"],
        OBJECT,
        "application/strategic-merge-patch+json",
    ),
    (["application/json-patch+json", "application/x-www-form-urlencoded"], OBJECT, "application/x-www-form-urlencoded"),
    (["application/json-patch+json", "application/json"], OBJECT, "application/json"),
    (["application/json-patch+json", "application/merge-patch+json"], {}, "application/merge-patch+json"),
    (
        ["application/json-patch+json", "application/merge-patch+json"],
        {"schema": {"type": "array", "items": {"type": "object"}}},
        "application/json-patch+json",
    ),
]


@pytest.mark.parametrize(("types", "described", "expected"), PATCHES)
def test_an_object_is_not_sent_as_a_json_patch(types: list[str], described: Any, expected: str) -> None:
    found = body_(dict.fromkeys(types, described)).body
    assert found is not None
    assert found.media_type == expected


def test_a_json_patch_is_an_array_of_operations_whatever_it_is_described_as() -> None:
    found = body_({"application/json-patch+json": OBJECT})
    assert is_valid(found, {"body": [{"op": "replace", "path": "/spec", "value": {}}]})
    assert not is_valid(found, {"body": {"spec": {}}})
