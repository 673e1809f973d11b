// Requests to the gateway's console API.

import { notice } from './dom.js';

const TIMEOUT_MS = 20_000;

/** What went wrong, for people; `status` is 0 if there was no answer. */
export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

let isReachable = true;
const watchers = [];

/** Calls `act(isReachable)` whenever the gateway goes away or comes back. */
export const onReachable = (act) => watchers.push(act);

function reached(isNow) {
  if (isReachable === isNow) return;
  isReachable = isNow;
  watchers.forEach((act) => act(isNow));
}

function away() {
  reached(false);
  return new ApiError('The gateway does not answer.');
}

export const get = (path, { signal } = {}) => json(path, {}, signal);

export const post = (path, body, { signal } = {}) => json(path, sent(body), signal);

const sent = (body) => ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });

async function json(path, request, signal) {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  const answer = await ask(path, { ...request, signal: signal ? AbortSignal.any([signal, limit]) : limit }, signal);
  return answer.json().catch((error) => { throw signal?.aborted ? error : away(); });
}

async function ask(path, request, signal) {
  const answer = await fetch(`api/${path}`, { cache: 'no-store', ...request })
    .catch((error) => { throw signal?.aborted ? error : away(); });
  if (answer.status === 401) { // the session has ended: the login page comes
    location.reload();
    return new Promise(() => {});
  }
  const said = answer.ok || await answer.json().catch(() => null);
  if (!said && answer.status > 501) throw away(); // a proxy says so
  reached(true);
  if (answer.ok) return answer;
  throw new ApiError(said?.message ?? `The gateway answered with status ${answer.status}.`, answer.status);
}

/** Sends JSON, and calls `onLine` with each line of JSON as it comes. */
export async function stream(path, body, onLine, { signal } = {}) {
  const answer = await ask(path, { ...sent(body), signal }, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const take = (line) => line.trim() && onLine(JSON.parse(line));
  for (let rest = ''; ;) {
    const { done, value } = await reader.read().catch((error) => {
      throw signal?.aborted ? error : new ApiError('The connection to the gateway broke.');
    });
    if (done) return void take(rest);
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    lines.forEach(take);
  }
}

/** Waits; while the page is hidden also until it is visible. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const over = new AbortController();
    const end = () => {
      if (document.hidden && !signal.aborted) return;
      clearTimeout(timer);
      over.abort();
      resolve();
    };
    const timer = setTimeout(end, ms);
    document.addEventListener('visibilitychange', end, { signal: over.signal });
    signal.addEventListener('abort', end, { signal: over.signal });
  });
}

async function repeat(act, everyMs, signal) {
  for (let said = ''; ;) {
    await pause(everyMs, signal);
    if (signal.aborted) return;
    const error = await act().then(() => null, (each) => each);
    if (error?.status > 0 && error.message !== said) notice(error.message);
    else if (error && !signal.aborted && !(error instanceof ApiError)) console.error(error);
    said = error?.message;
  }
}

/** Does something now, which may throw, and again while the page is visible, until the signal. */
export async function poll(act, everyMs, signal) {
  await act();
  if (!signal.aborted) repeat(act, everyMs, signal);
}
