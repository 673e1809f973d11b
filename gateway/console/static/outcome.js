// What becomes of a call: how it stands, the pages its user has to open, and how it ended.

import { h } from './dom.js';
import { bodyNode } from './exchanges.js';
import { duration } from './format.js';
import { write } from './json.js';

const ENDS = {
  done: ['✓', 'Result'],
  failed: ['✕', 'The tool failed'],
  refused: ['✕', 'Refused: the tool has not run'],
  broken: ['✕', 'No answer'],
};

/** Shows one call after the other. */
export class OutcomeView {
  #line = h('p', { class: 'state' });
  #elapsed = h('span', { class: 'muted' });
  #progress = h('progress', { 'aria-label': 'Progress of the call' });
  #note = h('p', { class: 'muted' });
  #links = h('div', { class: 'challenges' });
  #answer = h('div', {});
  node = h('div', { class: 'outcome', hidden: true, role: 'region', 'aria-label': 'Outcome of the call' },
    this.#line, this.#progress, this.#note, this.#links, this.#answer);
  #began = 0;
  #timer = null;
  #opened = new Set();

  begin() {
    this.node.hidden = false;
    this.node.className = 'outcome';
    this.#began = performance.now();
    this.#opened.clear();
    this.#links.replaceChildren();
    this.#answer.replaceChildren();
    this.#note.textContent = '';
    this.#progress.hidden = true;
    clearInterval(this.#timer);
    this.#timer = setInterval(() => {
      if (!this.node.isConnected) clearInterval(this.#timer);
      this.#tick();
    }, 250);
    this.#state('Sending');
  }

  /** What a followed call shows itself by; see `follow.js`. */
  following(exchanged) {
    return {
      exchanged,
      state: (text) => this.#state(text),
      progress: ({ progress, total, message }) => this.#shown(progress, total, message),
      challenges: (list, isElicited) => this.#challenges(list, isElicited),
    };
  }

  #tick() {
    this.#elapsed.textContent = ` ${duration((performance.now() - this.#began) / 1000)}`;
  }

  #state(text) {
    this.#line.replaceChildren(h('span', { 'aria-hidden': 'true' }, '… '), text, this.#elapsed);
    this.#tick();
  }

  #shown(progress, total, message) {
    const isShare = Number.isFinite(total) && total > 0 && Number.isFinite(progress);
    this.#progress.hidden = !isShare;
    if (isShare) {
      this.#progress.max = total;
      this.#progress.value = progress;
    }
    const share = isShare ? `${progress} of ${total}` : '';
    this.#note.textContent = [share, typeof message === 'string' ? message : ''].filter((each) => each !== '').join(' · ');
  }

  /** Shows the pages to open. `opened` resolves once the reader has opened all of them, or says so. */
  #challenges(list, isElicited) {
    if (list.every((each) => this.#opened.has(each.url))) return { opened: Promise.resolve(), set: () => {} };
    const { promise, resolve } = Promise.withResolvers();
    const places = new Map();
    const items = list.map((each) => {
      const status = h('span', { class: 'muted' });
      places.set(each.id, status);
      const open = () => {
        this.#opened.add(each.url);
        status.textContent = ' opened';
        if (isElicited && list.every((one) => this.#opened.has(one.url))) resolve();
      };
      return h('li', {}, linkTo(each.url, open), status);
    });
    const go = list.some((each) => !each.check_url) ? h('button', { type: 'button', class: 'small', on: { click: () => {
      list.forEach((each) => this.#opened.add(each.url));
      resolve();
    } } }, 'I have done it: go on') : null;
    this.#links.replaceChildren(h('p', {}, 'Open this page and give your consent. The call then goes on by itself:'), h('ul', {}, ...items), go);
    return { opened: promise, set: (id, text) => { places.get(id).textContent = ` ${text}`; } };
  }

  /** Shows how a call ended; returns it in a sentence. */
  end(outcome) {
    clearInterval(this.#timer);
    this.#tick();
    this.#links.replaceChildren();
    this.#note.textContent = '';
    this.#progress.hidden = true;
    const [sign, words] = outcome.code === 'cancelled' ? ['✕', 'Cancelled'] : ENDS[outcome.kind];
    this.node.className = `outcome ${outcome.kind}`;
    this.#line.replaceChildren(h('span', { 'aria-hidden': 'true' }, `${sign} `), h('strong', {}, words), this.#elapsed);
    this.#answer.replaceChildren(...(outcome.kind === 'done' ? [valueNode(outcome.value)] : whyNodes(outcome)));
    return outcome.kind === 'done' ? 'The call has a result.' : `${words}. ${outcome.message}`;
  }
}

const valueNode = (value) => bodyNode(typeof value === 'string' ? value : write(value, 2), 'Result');

function whyNodes({ message, code, detail, hint, canRetry, retryAfter, missing, challenges = [] }) {
  const rows = [['Code', code], ['Hint for the model', hint], ['For developers', detail],
    ['May be repeated', canRetry === null || canRetry === undefined ? null : canRetry === true ? 'yes' : 'no'],
    ['Again after', retryAfter ? `${retryAfter} s` : null], ['Missing', missing ? missingWords(missing) : null]];
  const said = rows.filter(([, text]) => text).flatMap(([name, text]) => [h('dt', {}, name), h('dd', { class: 'text' }, text)]);
  const links = challenges.map((each) => h('li', {}, linkTo(each.url, () => {})));
  return [h('p', { class: 'text' }, message), said.length > 0 ? h('dl', { class: 'facts' }, ...said) : null, links.length > 0 ? h('ul', {}, ...links) : null]
    .filter((each) => each !== null);
}

function missingWords(missing) {
  const ids = (name) => (Array.isArray(missing[name]) ? missing[name].map((each) => each?.id).filter((id) => typeof id === 'string') : []);
  return [...(missing.user_id ? ['the id of a user'] : []), ...ids('secrets').map((id) => `the secret ${id}`),
    ...ids('authorization').map((id) => `authorization ${id}`)].join(', ');
}

/** A link that others wrote: only to the web, in a tab of its own, with its address as its text. */
function linkTo(address, onOpen) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    // shown as the text it is
  }
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return h('code', { class: 'text' }, address);
  return h('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer', on: { click: onOpen } }, address);
}
