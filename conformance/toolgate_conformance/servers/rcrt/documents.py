"""The documents of RCRT that the checks cite."""

SERVER = "RCRT server, main.rs"
OPENAPI = "RCRT, openapi.json"
RUNNER = "RCRT tools-runner, index.ts"
TOOLS = "RCRT, deno-runtime.ts"
STANDARD = "RCRT Universal Tool Invocation Standard 1.0"
