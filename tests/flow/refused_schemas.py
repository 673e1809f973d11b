"""What the official tests of JSON Schema hold and tools may not: groups by draft, file and description, with why."""

# ruff: noqa: E501 - the descriptions are those of the suite
from __future__ import annotations

REMOTE = "outside of itself"  # nothing is fetched, not even what the validator has by itself
DYNAMIC = "which more than one of its parts answer"  # the target would depend on the way that led there
META_SCHEMA = "Unknown meta-schema"  # of one's own, with vocabularies of one's own

REFUSED: dict[str, dict[str, dict[str, str]]] = {
    "draft7": {
        "definitions.json": {
            "validate definition against metaschema": REMOTE,
        },
        "optional/cross-draft.json": {
            "refs to future drafts are processed as future drafts": REMOTE,
        },
        "ref.json": {
            "remote ref, containing refs itself": REMOTE,
        },
        "refRemote.json": {
            "remote ref": REMOTE,
            "fragment within remote ref": REMOTE,
            "ref within remote ref": REMOTE,
            "base URI change": REMOTE,
            "base URI change - change folder": REMOTE,
            "base URI change - change folder in subschema": REMOTE,
            "root ref in remote ref": REMOTE,
            "remote ref with ref to definitions": REMOTE,
            "Location-independent identifier in remote ref": REMOTE,
            "retrieved nested refs resolve relative to their URI not $id": REMOTE,
            "$ref to $ref finds location-independent $id": REMOTE,
        },
    },
    "draft2020-12": {
        "defs.json": {
            "validate definition against metaschema": REMOTE,
        },
        "dynamicRef.json": {
            "A $dynamicRef resolves to the first $dynamicAnchor still in scope that is encountered when the schema is evaluated": DYNAMIC,
            "A $dynamicRef with intermediate scopes that don't include a matching $dynamicAnchor does not affect dynamic scope resolution": DYNAMIC,
            "A $dynamicRef that initially resolves to a schema with a matching $dynamicAnchor resolves to the first $dynamicAnchor in the dynamic scope": DYNAMIC,
            "multiple dynamic paths to the $dynamicRef keyword": DYNAMIC,
            "after leaving a dynamic scope, it is not used by a $dynamicRef": DYNAMIC,
            "strict-tree schema, guards against misspelled properties": REMOTE,
            "tests for implementation dynamic anchor and reference link": REMOTE,
            "$ref and $dynamicAnchor are independent of order - $defs first": REMOTE,
            "$ref and $dynamicAnchor are independent of order - $ref first": REMOTE,
            "$ref to $dynamicRef finds detached $dynamicAnchor": REMOTE,
            "$dynamicRef skips over intermediate resources - direct reference": DYNAMIC,
        },
        "optional/cross-draft.json": {
            "refs to historic drafts are processed as historic drafts": REMOTE,
        },
        "optional/dynamicRef.json": {
            "$dynamicRef skips over intermediate resources - pointer reference across resource boundary": DYNAMIC,
        },
        "optional/format-assertion.json": {
            "schema that uses custom metaschema with format-assertion: false": META_SCHEMA,
            "schema that uses custom metaschema with format-assertion: true": META_SCHEMA,
        },
        "ref.json": {
            "remote ref, containing refs itself": REMOTE,
        },
        "refRemote.json": {
            "remote ref": REMOTE,
            "fragment within remote ref": REMOTE,
            "anchor within remote ref": REMOTE,
            "ref within remote ref": REMOTE,
            "base URI change": REMOTE,
            "base URI change - change folder": REMOTE,
            "base URI change - change folder in subschema": REMOTE,
            "root ref in remote ref": REMOTE,
            "remote ref with ref to defs": REMOTE,
            "Location-independent identifier in remote ref": REMOTE,
            "retrieved nested refs resolve relative to their URI not $id": REMOTE,
            "remote HTTP ref with different $id": REMOTE,
            "remote HTTP ref with different URN $id": REMOTE,
            "remote HTTP ref with nested absolute ref": REMOTE,
            "$ref to $ref finds detached $anchor": REMOTE,
        },
        "unevaluatedItems.json": {
            "unevaluatedItems with $dynamicRef": DYNAMIC,
        },
        "unevaluatedProperties.json": {
            "unevaluatedProperties with $dynamicRef": DYNAMIC,
        },
        "vocabulary.json": {
            "schema that uses custom metaschema with with no validation vocabulary": META_SCHEMA,
            "ignore unrecognized optional vocabulary": META_SCHEMA,
        },
    },
}
