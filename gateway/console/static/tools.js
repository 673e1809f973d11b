// The catalogue, searched as one types.

import { get } from './api.js';
import { h, fill, notice } from './dom.js';
import { count } from './format.js';

const PAGE = 100;
const DEBOUNCE_MS = 120;
const RETRY_MS = 2000;

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** Shows the list of tools. */
export async function show(main, { query, signal }) {
  document.title = 'Tools · Toolgate';
  const input = h('input', {
    type: 'search', id: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: 'Name, description or backend', 'aria-controls': 'tools',
  });
  const backend = h('select', { id: 'of-backend' }, h('option', { value: '' }, 'all backends'));
  const status = h('p', { class: 'muted' });
  const list = h('ul', { class: 'tools', id: 'tools', 'aria-label': 'Tools' });
  const more = h('button', { type: 'button', hidden: true }, 'Show more');
  input.value = query.get('q') ?? '';
  fill(main, h('h1', { tabindex: '-1' }, 'Tools'),
    h('div', { class: 'line search', role: 'search' },
      h('span', { class: 'labelled wide' }, h('label', { for: 'search' }, 'Search'), input),
      h('span', { class: 'labelled' }, h('label', { for: 'of-backend' }, 'Backend'), backend)),
    status, list, more);
  const catalogue = new Catalogue({ input, backend, status, list, more }, signal);
  fillBackends(backend, query.get('backend') ?? '', signal);
  await catalogue.search();
}

async function fillBackends(select, chosen, signal) {
  const add = (name) => select.append(h('option', { value: name }, name));
  if (chosen) add(chosen);
  select.value = chosen;
  let backends = null;
  while (backends === null && !signal.aborted) {
    const answer = await get('backends', { signal }).catch(() => pause(RETRY_MS));
    backends = answer?.backends ?? null;
  }
  backends?.map((each) => each.name).filter((name) => name !== chosen).forEach(add);
}

class Catalogue {
  #parts;
  #signal;
  #asking = new AbortController();
  #timer = null;
  #offset = 0;
  #seen = new IntersectionObserver((entries) => {
    const { more } = this.#parts;
    if (entries.some((each) => each.isIntersecting) && !more.hidden && !more.disabled) this.#more();
  }, { rootMargin: '400px' });

  constructor(parts, signal) {
    this.#parts = parts;
    this.#signal = signal;
    const { input, backend, list, more } = parts;
    input.addEventListener('input', () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.search(), DEBOUNCE_MS);
    });
    backend.addEventListener('change', () => this.search());
    more.addEventListener('click', () => this.#more());
    input.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown' || event.key === 'Enter') this.#go(event, list.querySelector('a'), event.key === 'Enter');
    });
    list.addEventListener('keydown', (event) => this.#move(event));
    this.#seen.observe(more);
    signal.addEventListener('abort', () => {
      this.#seen.disconnect();
      clearTimeout(this.#timer);
    });
  }

  /** Asks for what the fields say, from the first tool on. */
  async search() {
    const { list, input, backend } = this.#parts;
    const said = new URLSearchParams([['q', input.value.trim()], ['backend', backend.value]].filter(([, value]) => value !== ''));
    history.replaceState(null, '', `#/tools${said.size > 0 ? `?${said}` : ''}`);
    this.#offset = 0;
    const page = await this.#ask(said);
    if (page === null) return;
    list.replaceChildren();
    this.#add(page);
    list.scrollTop = 0;
  }

  async #more() {
    const { more, list, input, backend } = this.#parts;
    more.disabled = true;
    const before = list.childElementCount;
    const hadFocus = document.activeElement === more;
    const page = await this.#ask(new URLSearchParams({ q: input.value.trim(), backend: backend.value }));
    more.disabled = false;
    if (page === null) return;
    this.#add(page);
    this.#seen.unobserve(more);
    this.#seen.observe(more); // tells of it anew: it may have come into sight again before anybody looked
    if (hadFocus) list.children[before]?.querySelector('a').focus();
  }

  /** One page of what is asked for; null if something else is asked for meanwhile, or the gateway is away. */
  async #ask(said) {
    this.#asking.abort();
    this.#asking = new AbortController();
    const signal = AbortSignal.any([this.#signal, this.#asking.signal]);
    said.set('offset', this.#offset);
    said.set('limit', PAGE);
    try {
      return await get(`tools?${said}`, { signal });
    } catch (error) {
      if (signal.aborted) return null;
      this.#parts.status.textContent = `The tools cannot be listed now: ${error.message}`;
      if (error.status === 0) this.#timer = setTimeout(() => this.search(), RETRY_MS);
      return null;
    }
  }

  #add({ all, total, tools }) {
    const { list, more, status, input, backend } = this.#parts;
    list.append(...tools.map(row));
    this.#offset += tools.length;
    more.hidden = tools.length === 0 || this.#offset >= total;
    const isAll = input.value.trim() === '' && backend.value === '';
    const words = `${isAll ? '' : `${count(total)} of `}${count(all)} ${all === 1 ? 'tool' : 'tools'}`;
    if (all === 0) status.textContent = 'No tool is known yet. The backends say why.';
    else status.textContent = total === 0 ? 'No tool matches.' : words;
    notice(status.textContent);
  }

  #move(event) {
    const link = event.target.closest('a');
    const item = link?.closest('li');
    if (event.key === 'ArrowDown') this.#go(event, item?.nextElementSibling?.querySelector('a'));
    else if (event.key === 'ArrowUp') this.#go(event, item?.previousElementSibling?.querySelector('a') ?? this.#parts.input);
  }

  #go(event, target, isEnter = false) {
    if (!target) return;
    event.preventDefault();
    if (isEnter) target.click();
    else target.focus();
  }
}

function row({ name, version, versions, backend, protocol, summary, requires = [], scopes = [] }) {
  const marks = [...requires.map((each) => `needs ${each.replace('_', ' ')}`), ...scopes.map((each) => `scope ${each}`)];
  return h('li', {},
    h('a', { href: `#/tools/${encodeURIComponent(name)}` }, name), ' ',
    h('span', { class: 'muted' }, `${version}${versions > 1 ? ` (${versions} versions)` : ''} · ${backend} (${protocol})`),
    ...marks.map((each) => h('span', { class: 'mark' }, each)),
    summary ? h('p', { class: 'summary' }, summary) : null);
}
