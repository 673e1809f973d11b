// The frame: header, pages by the address's hash, and the banner when the gateway is away.

import { ApiError, get, onReachable, poll, post } from './api.js';
import { setCredential } from './credential.js';
import { draw, fill, h, mark } from './dom.js';

const RETRY_MS = 2000;
const STATUS_MS = 15_000;

const part = (id) => document.getElementById(id);
const main = part('main');
const links = [...document.querySelectorAll('nav a')];

let session = null;
let leaving = new AbortController();
let isBroken = false; // the page says why it is not shown
let isIncomplete = false; // a module did not come, which browsers remember until the page is loaded again
let isAway = false;

/**
 * Takes a credential out of the address, as the link that `toolgate demo` prints has it, and asks whether to use it:
 * anybody can make such a link, and would see what is called with a credential of theirs.
 */
function takeCredential() {
  const [, text] = /^#credential=(.*)$/.exec(location.hash) ?? [];
  if (text === undefined) return;
  history.replaceState(null, '', '#/');
  const offer = part('offer');
  const end = (isUsed) => {
    offer.hidden = true;
    fill(offer);
    if (!isUsed) return;
    setCredential(decoded(text) ?? text);
    if (session) visit();
  };
  fill(offer, h('p', {}, 'The link brings a credential. Whoever made it can see what is called with it.'),
    h('button', { type: 'button', on: { click: () => end(true) } }, 'Use it'),
    h('button', { type: 'button', on: { click: () => end(false) } }, 'Discard it'));
  offer.hidden = false;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** What a hash leads to: `{link, module, params, query}`; null if there is no such page. */
function routeOf(hash) {
  const [, path, said] = /^#?\/?([^?]*)\??(.*)$/.exec(hash);
  const [page, ...rest] = path.split('/');
  const name = decoded(rest.join('/'));
  const link = links.find((each) => each.hash === `#/${page}`);
  if (!link || name === null || (name !== '' && page !== 'tools')) return null;
  return { link, module: name ? 'tool' : page || 'overview', params: { name }, query: new URLSearchParams(said) };
}

async function visit(isFirst) {
  takeCredential();
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const route = routeOf(location.hash);
  const title = route?.link.textContent ?? 'There is no such page';
  isBroken = false;
  links.forEach((each) => (each === route?.link ? each.setAttribute('aria-current', 'page') : each.removeAttribute('aria-current')));
  document.title = `${title} · Toolgate`;
  try {
    if (route === null) {
      fill(main, h('h1', {}, title), h('a', { href: '#/' }, 'Go to the overview'));
    } else {
      const { show } = await import(`./${route.module}.js`);
      if (signal.aborted) return;
      await show(main, { ...route, session, signal });
    }
  } catch (error) {
    if (!signal.aborted) broken(route.params.name || title, error);
  }
  if (signal.aborted) return;
  const heading = main.querySelector('h1');
  heading.tabIndex = -1;
  if (isFirst || (main !== document.activeElement && main.contains(document.activeElement))) return;
  scrollTo(0, 0);
  heading.focus({ preventScroll: true });
}

/** Says why a page cannot be shown; it is tried again when the gateway is back. */
function broken(title, error) {
  isBroken = true;
  const isKnown = error instanceof ApiError;
  isIncomplete ||= !isKnown;
  if (!isKnown) {
    console.error(error);
    lookUp(); // a module does not come either if the gateway is away
  }
  fill(main, h('h1', {}, title), h('p', { class: 'text' }, isKnown ? error.message : 'This page cannot be shown.'),
    h('button', { type: 'button', on: { click: () => (session && !isIncomplete ? visit() : location.reload()) } }, 'Try again'));
}

const setStatus = (text) => draw(part('status'), text, () => mark(text === 'ok', text));

const lookUp = () => get('overview').then(({ status }) => setStatus(status), () => {});

onReachable((isReachable) => {
  isAway = !isReachable;
  part('banner').hidden = isReachable;
  part('banner').textContent = isAway ? 'The gateway does not answer. Trying again…' : '';
  if (isAway) return setStatus('away');
  lookUp();
  if (isBroken && isIncomplete) return location.reload();
  if (isBroken && session) visit();
});

/** The session, as soon as the gateway gives it. */
const begin = () => get('session').catch(async (error) => {
  if (error.status > 0) throw error;
  await new Promise((resolve) => { setTimeout(resolve, RETRY_MS); });
  return begin();
});

part('skip').addEventListener('click', (event) => {
  event.preventDefault(); // the hash is for pages
  main.focus();
});

takeCredential();
try {
  session = await begin();
  draw(part('version'), session.version);
  if (session.principal) {
    const leave = () => post('logout', {}).catch(() => {}).then(() => location.reload());
    fill(part('who'), session.principal, ' ', h('button', { type: 'button', class: 'small', on: { click: leave } }, 'Log out'));
  }
  addEventListener('hashchange', () => visit());
  await visit(true);
  links.map((each) => routeOf(each.hash).module).concat('tool').forEach((each) => import(`./${each}.js`).catch(() => {})); // for when the gateway is away
  const { signal } = new AbortController();
  await poll(lookUp, STATUS_MS, signal);
  await poll(async () => isAway && lookUp(), RETRY_MS, signal);
} catch (error) {
  broken('Toolgate', error);
}
