// A call from its first request to its end: challenges are waited for, long calls are asked for, and it can be cancelled.

import { parse } from './json.js';
import { callPath, pathOf } from './answers.js';
import { progressOf } from './mcp.js';
import { exchange } from './wire.js';

const LONGEST_S = 3600;
const MIN_PAUSE_MS = 500;
const MAX_PAUSE_MS = 5000;
const CHECK_MS = 1000;

const later = (ms) => Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, ms || 0));

/** Waits; rejects when the signal is aborted. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new DOMException('Stopped', 'AbortError'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

/**
 * One call of the reader's. `view` shows it: `exchanged(seen, isPoll)`, `state(text)`, `progress({progress, total, message})`,
 * and `challenges(list, isElicited)`, which returns `{opened, set(id, text)}`: `opened` resolves when the reader has gone on.
 */
export class Followed {
  #dialect;
  #call;
  #view;
  #signal;
  #headers;
  #closing = new AbortController();
  #outcome = null;
  #asked = null;

  constructor(dialect, call, view, { signal, headers }) {
    this.#dialect = dialect;
    this.#call = call;
    this.#view = view;
    this.#headers = headers;
    this.#signal = AbortSignal.any([signal, this.#closing.signal, AbortSignal.timeout(LONGEST_S * 1000)]);
  }

  /** Makes the call; resolves to its last outcome. */
  async run() {
    try {
      await this.#dialect.prepare(this.#call, (request) => this.#send(request));
      this.#view.state('Waiting for the answer');
      let outcome = await this.#ask(this.#dialect.call(this.#call));
      for (;;) {
        this.#outcome = outcome;
        if (outcome.kind === 'running') outcome = await this.#look(outcome, outcome.note ?? 'The tool is still running');
        else if (outcome.kind === 'consent') outcome = await this.#consent(outcome);
        else return outcome;
      }
    } catch (error) {
      if (error.name !== 'AbortError' && error.name !== 'TimeoutError') throw error;
      return { kind: 'broken', message: 'No longer followed.' };
    }
  }

  /** Cancels the call where it runs; closes the connection if there is no other way. */
  async cancel() {
    const { callId } = this.#call;
    const place = this.#outcome ?? (callId ? { path: callPath(callId) } : {});
    const request = place.path || place.task || this.#dialect.title === 'MCP'
      ? this.#dialect.cancel(place, this.#call, this.#asked) : null;
    this.#view.state('Cancelling');
    const seen = request === null ? null : await this.#send(request);
    const isTaken = seen !== null && seen.response !== null && seen.response.status < 300;
    if (!isTaken || this.#outcome?.kind === 'consent') this.#closing.abort();
  }

  async #send(request, { isPoll = false, onChange } = {}) {
    const asked = { ...request, headers: [...this.#headers, ...request.headers] };
    const seen = await exchange(asked, { signal: this.#signal, onChange: (each) => {
      this.#view.exchanged(each, isPoll);
      onChange?.(each);
    } });
    if (this.#signal.aborted && this.#closing.signal.aborted === false) throw new DOMException('Stopped', 'AbortError');
    return seen;
  }

  async #ask(request, isPoll = false) {
    this.#asked = request;
    const onChange = (seen) => {
      if (!request.path.includes('/mcp')) return;
      const progress = progressOf(seen);
      if (progress !== null) this.#view.progress(progress);
    };
    return this.#dialect.read(await this.#send(request, { isPoll, onChange }), this.#call);
  }

  async #look(outcome, text) {
    this.#view.state(text);
    await pause(later(outcome.retryMs), this.#signal);
    return this.#ask(this.#dialect.look(outcome, this.#call), true);
  }

  async #consent(outcome) {
    this.#view.state(outcome.message);
    const shown = this.#view.challenges(outcome.challenges, outcome.isElicited === true);
    const checks = outcome.challenges.map((each) => [each.id, pathOf(each.check_url, '/challenges/')]);
    if (checks.every(([, path]) => path !== null)) {
      const ends = await Promise.all(checks.map(([id, path]) => this.#check(id, path, shown)));
      if (ends.includes('failed')) return { ...outcome, kind: 'refused', message: 'The user declined, or the link has expired.' };
    } else {
      await Promise.race([shown.opened, pause(LONGEST_S * 1000, this.#signal)]);
    }
    this.#view.state('The call goes on');
    if (outcome.task) {
      await this.#send(this.#dialect.agree(outcome, this.#call));
      return { kind: 'running', task: outcome.task, retryMs: outcome.retryMs };
    }
    if (outcome.isElicited) await pause(outcome.state === undefined ? 2 * CHECK_MS : MIN_PAUSE_MS, this.#signal); // a state is waited for there
    return this.#ask(this.#dialect.again(this.#call, outcome));
  }

  /** Asks how a challenge stands until it is over: `completed` or `failed`. */
  async #check(id, path, shown) {
    for (;;) {
      const seen = await this.#send({ method: 'GET', path, headers: [['Accept', 'application/json']] }, { isPoll: true });
      const status = statusOf(seen);
      shown.set(id, status ?? 'pending');
      if (status === 'completed' || status === 'failed') return status;
      if (seen.response?.status === 404) return 'failed';
      await pause(CHECK_MS, this.#signal);
    }
  }
}

function statusOf(seen) {
  try {
    const { status } = parse(seen.body);
    return typeof status === 'string' ? status : null;
  } catch {
    return null;
  }
}
