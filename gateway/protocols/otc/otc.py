"""Open Tool Calling: OTC 1.0 and the draft RFC before it, towards callers and towards tool servers."""

from __future__ import annotations

from gateway.core.jsontext import encode
from gateway.core.model import Json, JsonObject, ToolCall, ToolDefinition, ToolRef, ToolResult
from gateway.core.wire import WireReply
from gateway.protocols.common import definitions, fields
from gateway.protocols.otc import dialect as rest


class Otc(rest.RestDialect):
    """OTC 1.0: enveloped, the schema of the arguments under `input_schema.parameters`."""

    name = "otc"
    canonical = rest.OTC_SCHEMA
    wire_versions = rest.OTC_URLS | {rest.OTC_SCHEMA}

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        wrapped = {"parameters": tool.input_schema} | definitions.x_otc(tool)
        return encode(definitions.definition_object(tool, wrapped))


class Rfc(rest.RestDialect):
    """The draft RFC: a flat answer around `output`, definitions with `toolkit`, `input` and `output`."""

    name = "rfc"
    canonical = rest.RFC_SCHEMA
    wire_versions = frozenset({rest.RFC_SCHEMA})
    call_paths = ("/call", "/tools/call")  # its own OpenAPI file already said the other

    def decode_call(self, document: JsonObject) -> ToolCall:
        request = fields.object_(document.get("request"), "request")
        # Section 4.2 says `inputs`, section 5.2 and every example `input`.
        if "input" in request and "inputs" in request:
            raise fields.invalid("A call has 'input' or 'inputs', not both.")
        fields.reject_unknown_members(request, fields.REQUEST_MEMBERS | {"inputs"})
        arguments = "inputs" if "inputs" in request else "input"
        return fields.call_of(request, self._tool_ref(request.get("tool_id")), arguments=arguments)

    def _tool_ref(self, wire_id: Json) -> ToolRef:
        """Tool Version Resolution of the RFC knows the keyword `latest`."""
        if isinstance(wire_id, str) and wire_id.endswith("@latest"):
            wire_id = wire_id.removesuffix("@latest")
            if "@" in wire_id:
                raise fields.invalid("The tool_id names two versions.")
        return fields.tool_ref(wire_id)

    def encode_result(self, result: ToolResult, call_id: str) -> WireReply:
        body: JsonObject = {"$schema": self.wire_version} | fields.result_object(result, call_id)
        outcome = "value" if result.failure is None else "error"
        body["output"] = {outcome: body.pop(outcome)}
        return fields.ok(encode(body), result.failure)

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        # Its schema demands the description; where none is known, an empty one.
        described = {"description": tool.toolkit_description or ""}
        toolkit: JsonObject = {"name": tool.toolkit, **described, "version": tool.version}
        inputs: JsonObject = {"parameters": tool.input_schema}
        if tool.non_inferrable_parameters:
            inputs["non_inferrable_parameters"] = tool.non_inferrable_parameters
        body: JsonObject = {
            "id": tool.id,
            "name": tool.name,
            "description": tool.description,
            "toolkit": toolkit,
            "input": inputs,
            "output": self._output(tool),
        }
        requirements = definitions.requirements_object(tool.requires)
        if requirements is not None:
            body["requirements"] = requirements
        if tool.examples is not None:
            body["examples"] = tool.examples
        return encode(body)

    def _output(self, tool: ToolDefinition) -> JsonObject:
        """Section 4.1, Output Schema: with mode `value` the `value` member must be there."""
        modes = tool.output_modes or definitions.usual_modes(tool.output_schema)
        output: JsonObject = {"available_modes": modes}
        if tool.output_description is not None:
            output["description"] = tool.output_description
        if "value" in modes:
            output["value"] = tool.output_schema or {}
        return output
