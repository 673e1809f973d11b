// The dialects of the gateway: the request that makes a call in each, and what its answers mean.

import { isObject, member, parse, write } from './json.js';
import { mcp } from './mcp.js';
import { callPath, described, pathOf } from './answers.js';
import { headerOf } from './wire.js';

const RFC = 'https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json';
const REST = {
  oxp: { title: 'OXP', path: '/oxp/tools/call', isFlat: true, headers: [['OXP-Version', '1.0']] },
  'oxp-env': { title: 'OXP, enveloped', path: '/oxp-env/tools/call', schema: 'urn:oxp:1.0' },
  otc: { title: 'OTC 1.0', path: '/otc/tools/call', schema: 'otc://1.0' },
  rfc: { title: 'OTC RFC', path: '/rfc/call', schema: RFC },
  lc: { title: 'LangChain form', path: '/lc/tools/call' },
};

/** All dialects by their names, in the order in which they are offered. */
export const DIALECTS = { ...Object.fromEntries(Object.entries(REST).map(([name, form]) => [name, rest(form)])), mcp };

const get = (path, method = 'GET') => ({ method, path, headers: [['Accept', 'application/json']] });

function rest({ title, path, isFlat = false, schema, headers = [] }) {
  return {
    title,
    prepare: async () => {},
    call(call) {
      const request = {
        ...(call.callId ? { call_id: call.callId } : {}),
        tool_id: call.version ? `${call.tool}@${call.version}` : call.tool,
        input: call.input,
        ...(call.context ? { context: call.context } : {}),
      };
      const body = isFlat ? request : { ...(schema ? { $schema: schema } : {}), request };
      return { method: 'POST', path, headers: [['Content-Type', 'application/json'], ...headers, ...preference(call)], body: write(body) };
    },
    again(call) {
      return this.call(call);
    },
    look: (outcome) => get(outcome.path),
    cancel: (outcome) => get(outcome.path, 'DELETE'),
    read,
  };
}

function preference({ waitS, isAsync }) {
  const parts = [...(isAsync ? ['respond-async'] : []), ...(waitS === null || waitS === undefined ? [] : [`wait=${waitS}`])];
  return parts.length > 0 ? [['Prefer', parts.join(', ')]] : [];
}

function read(seen, call) {
  if (seen.error !== null) return { kind: 'broken', message: seen.error };
  let document;
  try {
    document = parse(seen.body);
  } catch {
    return { kind: 'broken', message: `The answer is not JSON (status ${seen.response?.status}).` };
  }
  const path = pathOf(headerOf(seen, 'location'), '/calls/') ?? (call.callId ? callPath(call.callId) : null);
  const { status } = seen.response;
  if (status >= 400) return refusalOf(document, path, headerOf(seen, 'retry-after'));
  const answer = isObject(member(document, 'result')) ? document.result : document;
  const output = isObject(member(answer, 'output')) ? answer.output : answer;
  const error = member(output, 'error');
  const isRunning = status === 202 || member(error, 'code') === 'still_running';
  if (isRunning && path !== null) return { kind: 'running', path, retryMs: Number(member(error, 'retry_after_ms') ?? 1000) };
  if (isObject(error)) return { kind: 'failed', ...described(error), error };
  return { kind: 'done', value: member(output, 'value') ?? null };
}

function refusalOf(document, path, retryAfter) {
  const refusal = { kind: 'refused', ...described(document), path, retryAfter };
  const isOnlyConsent = refusal.challenges.length > 0 && Object.keys(refusal.missing).length === 1;
  return isOnlyConsent ? { ...refusal, kind: 'consent' } : refusal;
}
