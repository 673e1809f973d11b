// Requests and answers as they went over the wire.

import { masked } from './credential.js';
import { h } from './dom.js';
import { duration } from './format.js';
import { parse, write } from './json.js';
import { eventsOf, headerOf } from './wire.js';

const MAX_SHOWN = 200_000; // characters of a body, until the reader asks for all
const EVERY_MS = 100;

/** The list of exchanges of a call. */
export class Exchanges {
  node = h('div', { class: 'exchanges' });
  #shown = new Map();

  clear() {
    this.#shown.clear();
    this.node.replaceChildren();
  }

  /** Shows an exchange, or what came of it since; repeated questions share one place. */
  update(seen, isPoll) {
    const key = isPoll ? `${seen.asked.method} ${seen.asked.path}` : seen;
    let entry = this.#shown.get(key);
    if (entry === undefined) {
      for (const { node } of this.#shown.values()) node.open = false;
      entry = new Exchange();
      this.#shown.set(key, entry);
      this.node.append(entry.node);
    }
    entry.update(seen);
  }
}

class Exchange {
  #summary = h('summary', {});
  #request = h('div', {});
  #response = h('div', {});
  node = h('details', { class: 'exchange', open: true }, this.#summary, this.#request, this.#response);
  #times = 0;
  #seen = null;
  #timer = null;
  #isPretty = true;

  update(seen) {
    if (seen !== this.#seen) this.#times += 1;
    this.#seen = seen;
    const isOver = seen.end !== null || seen.error !== null;
    if (isOver) {
      clearTimeout(this.#timer);
      this.#timer = null;
      this.#draw();
    } else {
      this.#timer ??= setTimeout(() => {
        this.#timer = null;
        this.#draw();
      }, EVERY_MS);
    }
  }

  #draw() {
    const { asked, request, response, end, error } = this.#seen;
    const status = response === null ? (error ? 'no answer' : '…') : response.line.replace(/^HTTP\/[\d.]+ /, '');
    const method = asked.method === 'POST' ? rpcMethod(asked.body) : '';
    this.#summary.replaceChildren(h('code', {}, `${asked.method} ${asked.path}`), method, ' ',
      h('span', { class: `status s${String(response?.status ?? 0)[0]}` }, status),
      end ? ` ${duration(end.duration_s)}` : '', this.#times > 1 ? ` · asked ${this.#times} times` : '');
    const raw = h('button', { type: 'button', class: 'small', 'aria-pressed': String(!this.#isPretty), on: { click: () => this.#toggle() } }, 'Raw');
    this.#request.replaceChildren(...part('Request', request, request?.body ?? '', this.#isPretty, raw));
    this.#response.replaceChildren(...part('Response', response, this.#seen.body, this.#isPretty, null, headerOf(this.#seen, 'content-type')));
    if (error) this.#response.append(h('p', { class: 'field-error' }, error));
    if (end?.truncated) this.#response.append(h('p', { class: 'muted' }, 'The answer is longer; the rest was not fetched.'));
  }

  #toggle() {
    this.#isPretty = !this.#isPretty;
    this.#draw();
    this.#request.querySelector('button').focus();
  }
}

function part(title, head, body, isPretty, button, type = '') {
  if (head === null) return [];
  const lines = [head.line, ...head.headers.map(([name, value]) => `${name}: ${masked(name, value)}`)];
  return [
    h('div', { class: 'field-head' }, h('h4', {}, title), button),
    h('pre', { class: 'head', tabindex: '0', 'aria-label': `${title}, headers` }, lines.join('\n')),
    body === '' ? null : bodyNode(isPretty ? pretty(body, type) : body, `${title}, body`),
  ].filter((each) => each !== null);
}

/** A long text, cut until the reader asks for all of it. */
export function bodyNode(text, label) {
  const pre = h('pre', { tabindex: '0', 'aria-label': label }, text.slice(0, MAX_SHOWN));
  if (text.length <= MAX_SHOWN) return pre;
  const more = h('button', { type: 'button', class: 'small', on: { click: () => {
    pre.textContent = text;
    more.remove();
  } } }, `Show all ${text.length} characters`);
  return h('div', {}, pre, more);
}

/** JSON with line breaks, also inside events; any other text as it is. */
function pretty(body, type) {
  const one = (text) => {
    try {
      return write(parse(text), 2);
    } catch {
      return text;
    }
  };
  return type.startsWith('text/event-stream') ? eventsOf(body).map(one).join('\n\n') : one(body);
}

function rpcMethod(body) {
  try {
    const { method } = parse(body);
    return typeof method === 'string' ? ` ${method}` : '';
  } catch {
    return '';
  }
}
