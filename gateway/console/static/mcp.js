// MCP as a dialect: revision 2026-07-28, which is stateless, and those before it, which begin with `initialize`.

import { credentialHeaders } from './credential.js';
import { isObject, member, parse, write } from './json.js';
import { callPath, described } from './answers.js';
import { eventsOf, exchange, headerOf } from './wire.js';

const MODERN = '2026-07-28';
const PREFIX = 'io.modelcontextprotocol/';
const ELICITATION = { elicitation: { url: {} } };
const CAPABILITIES = { ...ELICITATION, extensions: { [`${PREFIX}tasks`]: {} } };
const CLIENT = { name: 'toolgate-console', version: '1' };

/** The revisions that calls can be made in, the newest first. */
export const REVISIONS = [MODERN, '2025-11-25', '2025-06-18', '2025-03-26'];

let lastId = 0;
const sessions = new Map(); // of legacy revisions, by revision and credential

const isModern = (call) => call.revision === MODERN;
const sessionKey = (call) => write([call.revision, credentialHeaders()]);

/** A value as it may stand in a header: in base64 if it could not stand there as it is. */
function headerValue(text) {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text)) return text;
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}?=`;
}

function post(call, method, params, { name = null, id = (lastId += 1), meta = {} } = {}) {
  const headers = [['Content-Type', 'application/json'], ['Accept', 'application/json, text/event-stream']];
  let all = { ...meta };
  if (isModern(call)) {
    headers.push(['MCP-Protocol-Version', MODERN], ['Mcp-Method', method]);
    if (name !== null) headers.push(['Mcp-Name', headerValue(name)]);
    all = { [`${PREFIX}protocolVersion`]: MODERN, [`${PREFIX}clientInfo`]: CLIENT, [`${PREFIX}clientCapabilities`]: CAPABILITIES, ...meta };
  } else if (method !== 'initialize') {
    const session = sessions.get(sessionKey(call));
    headers.push(['MCP-Protocol-Version', call.revision], ...(session ? [['Mcp-Session-Id', session]] : []));
  }
  const message = {
    jsonrpc: '2.0', ...(id === null ? {} : { id }), method, params: Object.keys(all).length > 0 ? { ...params, _meta: all } : params,
  };
  return { method: 'POST', path: call.mcpPath, headers, body: write(message), id };
}

function toolsCall(call, more = {}) {
  const name = call.version ? `${call.tool}@${call.version}` : call.mcpName ?? call.tool;
  const meta = {
    progressToken: `p${lastId + 1}`,
    ...(call.callId ? { 'toolgate/call_id': call.callId } : {}),
    ...(call.isAsync ? { 'toolgate/wait': 0 } : call.waitS != null ? { 'toolgate/wait': call.waitS } : {}),
    ...(call.context ? { 'toolgate/context': call.context } : {}),
  };
  return post(call, 'tools/call', { name, arguments: call.input, ...more }, { name, meta });
}

/** The dialect. */
export const mcp = {
  title: 'MCP',
  /** Begins a session where the revision has them; `send` makes an exchange that is shown. */
  async prepare(call, send) {
    if (isModern(call) || sessions.has(sessionKey(call))) return;
    const capabilities = call.revision === REVISIONS[1] ? ELICITATION : {};
    const seen = await send(post(call, 'initialize', { protocolVersion: call.revision, capabilities, clientInfo: CLIENT }));
    const session = headerOf(seen, 'mcp-session-id');
    if (seen.response?.status !== 200) return;
    sessions.set(sessionKey(call), session ?? '');
    await send(post(call, 'notifications/initialized', {}, { id: null }));
  },
  call: (call) => toolsCall(call),
  /** The call once more, with what the reader agreed to: the URLs of an outcome were opened. */
  again(call, outcome) {
    if (!outcome.requests) return toolsCall(call);
    const inputResponses = Object.fromEntries(Object.keys(outcome.requests).map((key) => [key, { action: 'accept' }]));
    return toolsCall(call, { inputResponses, ...(outcome.state === undefined ? {} : { requestState: outcome.state }) });
  },
  /** Tells a task that its URLs were opened. */
  agree(outcome, call, action = 'accept') {
    const inputResponses = Object.fromEntries(Object.keys(outcome.requests).map((key) => [key, { action }]));
    return post(call, 'tasks/update', { taskId: outcome.task, inputResponses }, { name: outcome.task });
  },
  look(outcome, call) {
    if (!outcome.task) return { method: 'GET', path: outcome.path, headers: [['Accept', 'application/json']] };
    return post(call, 'tasks/get', { taskId: outcome.task }, { name: outcome.task });
  },
  cancel(outcome, call, asked) {
    if (outcome?.task) return post(call, 'tasks/cancel', { taskId: outcome.task }, { name: outcome.task });
    if (outcome?.path) return { method: 'DELETE', path: outcome.path, headers: [['Accept', 'application/json']] };
    return isModern(call) ? null : post(call, 'notifications/cancelled', { requestId: asked.id }, { id: null });
  },
  read,
};

/** The messages in an answer, also while it is still coming. */
export function messagesOf(seen) {
  const isStream = headerOf(seen, 'content-type')?.startsWith('text/event-stream');
  return (isStream ? eventsOf(seen.body) : [seen.body]).flatMap((text) => {
    try {
      return [parse(text)].flat();
    } catch {
      return [];
    }
  });
}

/** How far a call has come, by its last progress notification: `{progress, total, message}`; null if none came. */
export function progressOf(seen) {
  const told = messagesOf(seen).filter((each) => member(each, 'method') === 'notifications/progress');
  const params = member(told.at(-1), 'params');
  return isObject(params) ? params : null;
}

function read(seen, call) {
  if (seen.error !== null) return { kind: 'broken', message: seen.error };
  const response = messagesOf(seen).findLast((each) => member(each, 'result') !== undefined || member(each, 'error') !== undefined);
  if (response === undefined) return { kind: 'broken', message: `There is no response in the answer (status ${seen.response?.status}).` };
  const error = member(response, 'error');
  if (error === undefined) return resultOf(response.result, call);
  if (member(error, 'code') === -32042) return asking(elicited(member(error.data, 'elicitations')), described(error));
  const refusal = described(error);
  return { kind: 'refused', ...refusal, code: refusal.code ?? String(member(error, 'code') ?? ''), retryAfter: headerOf(seen, 'retry-after') };
}

function resultOf(result, call) {
  if (member(result, 'resultType') === 'input_required') {
    return { ...asking(requested(result.inputRequests)), requests: result.inputRequests, state: member(result, 'requestState') };
  }
  const task = member(result, 'taskId');
  return typeof task === 'string' ? taskOf(result, task, call) : callResult(result, call);
}

function taskOf(result, task, call) {
  const retryMs = Number(member(result, 'pollIntervalMs') ?? 1000);
  const note = member(result, 'statusMessage') ?? null;
  switch (member(result, 'status')) {
    case 'completed': return callResult(result.result, call);
    case 'failed': return { kind: 'refused', ...described(member(result, 'error')) };
    case 'cancelled': return { kind: 'failed', ...described({ message: note ?? 'The call was cancelled.', code: 'cancelled' }) };
    case 'input_required':
      return { ...asking(requested(result.inputRequests)), requests: result.inputRequests, task, retryMs };
    default: return { kind: 'running', task, retryMs, note };
  }
}

function callResult(result, call) {
  const meta = member(result, '_meta');
  const error = member(meta, 'toolgate/error');
  const texts = (Array.isArray(result?.content) ? result.content : []).map((each) => member(each, 'text')).filter((each) => typeof each === 'string');
  if (member(result, 'isError') !== true) {
    return { kind: 'done', value: member(result, 'structuredContent') ?? (texts.length === 1 && result.content.length === 1 ? texts[0] : result?.content ?? null) };
  }
  const failure = described(error ?? { message: texts.join('\n') });
  const id = member(meta, 'toolgate/call_id') ?? call.callId;
  const path = typeof id === 'string' && id ? callPath(id) : null;
  if (failure.code === 'still_running' && path) return { kind: 'running', path, retryMs: Number(member(error, 'retry_after_ms') ?? 1000) };
  if (failure.challenges.length > 0 && Object.keys(failure.missing).length === 1) return { kind: 'consent', ...failure, path };
  return { kind: failure.missing || Object.keys(failure.parameters).length > 0 ? 'refused' : 'failed', ...failure };
}

const asking = (challenges, about = {}) => ({ kind: 'consent', isElicited: true, message: challenges[0]?.message ?? 'The user has to open a page first.', ...about, challenges });

const elicited = (list) => (Array.isArray(list) ? list.filter((each) => typeof member(each, 'url') === 'string') : []);

function requested(requests) {
  const asked = isObject(requests) ? Object.entries(requests) : [];
  return asked.flatMap(([id, each]) => (typeof member(member(each, 'params'), 'url') === 'string' ? [{ id, ...each.params }] : []));
}
