// What the answers to calls have in common in all dialects.
//
// A call is `{tool, version, mcpName, input, callId, waitS, isAsync, context, revision}`. What an answer means is an outcome:
// `{kind: 'done', value}`, `'failed'` or `'refused'` with `{message, code, parameters, missing, hint}`,
// `{kind: 'running', path|task, retryMs}`, `{kind: 'consent', challenges, ...}`, or `{kind: 'broken', message}`.

import { isObject, member } from './json.js';

/** Where a call can be asked for. */
export const callPath = (id) => `/calls/${encodeURIComponent(id)}`;

/** The path of an address of the gateway, whatever stands before it: a public address may be behind a proxy. */
export function pathOf(address, part) {
  const at = typeof address === 'string' ? address.indexOf(part) : -1;
  return at < 0 ? null : address.slice(at);
}

/** What a refusal or a failure says, whatever dialect it is in. */
export function described(error) {
  const text = (name) => (typeof member(error, name) === 'string' ? error[name] : null);
  const missing = isObject(member(error, 'missing_requirements')) ? error.missing_requirements : null;
  const challenges = Array.isArray(missing?.authorization) ? missing.authorization.filter((each) => typeof member(each, 'url') === 'string') : [];
  return {
    message: text('message') ?? 'The gateway does not say why.',
    code: text('code'),
    detail: text('developer_message'),
    hint: text('additional_prompt_content'),
    canRetry: member(error, 'can_retry') ?? null,
    parameters: isObject(member(error, 'parameter_errors')) ? error.parameter_errors : {},
    missing,
    challenges,
  };
}
