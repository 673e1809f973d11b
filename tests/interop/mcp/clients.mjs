// Runs a TypeScript client of others: `clients.mjs MODULES (sdk|client) MODE URL`, with the credential in TOOL_TOKEN.
// In and out is what clients.py has; MODULES is the folder of npm's packages.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const [modules, kind, mode, url] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { Client, StreamableHTTPClientTransport } =
  kind === "client"
    ? require("@modelcontextprotocol/client")
    : {
        ...require("@modelcontextprotocol/sdk/client/index.js"),
        ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
      };
const negotiation = { legacy: "legacy", auto: "auto", pinned: { pin: "2026-07-28" } }[mode];
const client = new Client({ name: "interop", version: "1" }, { versionNegotiation: { mode: negotiation } });
const headers = { Authorization: `Bearer ${process.env.TOOL_TOKEN}` };

async function outcome([name, given]) {
  try {
    return await client.callTool({ name, arguments: given });
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    return { error: error.code };
  }
}

await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const outcomes = [];
for (const step of JSON.parse(await text(process.stdin))) outcomes.push(await outcome(step));
await client.close();
process.stdout.write(JSON.stringify({ tools, outcomes }));
