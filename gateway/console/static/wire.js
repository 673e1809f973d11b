// Requests as they go over the wire: sent by the gateway's relay, shown, and written for a shell.

import { stream } from './api.js';

const TIMEOUT_S = 600;

/**
 * Sends a request to the gateway's own public listener; `onChange(exchange)` is called as the answer comes.
 * @returns the exchange `{asked, request, response, body, end, error, began}`; what broke off has an `error`.
 */
export async function exchange(asked, { signal, onChange = () => {} } = {}) {
  const seen = { asked, request: null, response: null, body: '', end: null, error: null, began: performance.now() };
  const take = (line) => {
    if (line.request) seen.request = line.request;
    else if (line.response) seen.response = line.response;
    else if (line.data !== undefined) seen.body += line.data;
    else if (line.end) seen.end = line.end;
    else if (line.error) seen.error = line.error;
    onChange(seen);
  };
  try {
    const { method, path, headers, body = null } = asked;
    await stream('send', { method, path, headers, body, timeout_s: TIMEOUT_S }, take, { signal });
  } catch (error) {
    seen.error = signal?.aborted ? 'Cancelled: the connection was closed.' : error.message;
  }
  if (seen.end === null && seen.error === null) seen.error = 'The answer broke off.';
  onChange(seen);
  return seen;
}

/** A header of the answer; undefined if it has none. */
export function headerOf(seen, name) {
  return seen.response?.headers.find(([each]) => each.toLowerCase() === name)?.[1];
}

/** The data of the events in a stream (`text/event-stream`), one text each. */
export function eventsOf(text) {
  return text.split(/\r?\n\r?\n/).flatMap((event) => {
    const data = event.split(/\r?\n/).filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, ''));
    return data.length > 0 && data.join('') !== '' ? [data.join('\n')] : [];
  });
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A text in double quotes in which variables stand for themselves; all else is as it is. */
const expanded = (text) => `"${text.replace(/[\\"`!]|\$(?!TOOLGATE_TOKEN)/g, '\\$&')}"`;

/** The request as a line for a shell. Headers of the credential name its variable. */
export function curlLine(base, { method, path, headers, body }, credential) {
  const parts = [`curl -sS ${quoted(base.replace(/\/$/, '') + path)}`];
  if (method !== (body === null || body === undefined ? 'GET' : 'POST')) parts.push(`-X ${method}`);
  for (const [name, value] of credential) parts.push(`-H ${expanded(`${name}: ${value}`)}`);
  for (const [name, value] of headers) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== null && body !== undefined) parts.push(`-d ${secretsOut(quoted(body))}`);
  return parts.join(' \\\n  ');
}

const MARK = /\uE000([A-Za-z_]\w*)\uE001/g;

/** Stands for a secret in a body that is shown or copied: a shell reads the variable. */
export const placeholder = (name) => `\uE000${name.replace(/\W/g, '_').replace(/^\d/, '_$&')}\uE001`;

const secretsOut = (text) => text.replace(MARK, `'"$$$1"'`);
