// The tool servers: whether they are up, how busy they are, and what they leave out.

import { get, poll, post } from './api.js';
import { draw, facts, fill, h, health, notice } from './dom.js';
import { ago, count, dateTime } from './format.js';
import { keyed, table } from './table.js';

const EVERY_MS = 3000;

/** Shows the backends. */
export async function show(main, { signal }) {
  const empty = h('p', {}, 'No backends are configured.');
  const list = h('ul', { class: 'cards', tabindex: '-1', 'aria-label': 'Backends' });
  const update = keyed(list, (row) => `${row.name} ${row.protocol}`, (row) => card(row, signal));
  await poll(async () => {
    const { backends } = await get('backends', { signal });
    empty.hidden = backends.length > 0;
    update(backends);
  }, EVERY_MS, signal);
  fill(main, h('h1', {}, 'Backends'), empty, list);
}

/** One backend. */
function card({ name, protocol }, signal) {
  const figures = h('dl', { class: 'figures' });
  const places = new Map();
  const put = (title, data, make) => {
    if (!places.has(title)) {
      places.set(title, h('dd', {}));
      figures.append(h('div', {}, h('dt', {}, title), places.get(title)));
    }
    places.get(title).parentNode.hidden = data === null || data === undefined;
    draw(places.get(title), data, make);
  };
  const asked = h('span', { class: 'muted' });
  let age = null;
  let askedAt = null; // the age of the catalogue when it was asked for
  const tell = (text) => {
    asked.textContent = text;
    notice(`${name}: ${text}`);
  };
  const refresh = h('button', { type: 'button', class: 'small', 'aria-label': `Refresh ${name}`, on: { click: async () => {
    const before = age ?? Infinity;
    try {
      await post(`backends/${encodeURIComponent(name)}/refresh`, {}, { signal });
      askedAt = before;
      tell('asked');
    } catch (error) {
      if (!signal.aborted) tell(error.message);
    }
  } } }, 'Refresh');
  const replicas = table({ caption: `Replicas of ${name}`, key: (row) => row.name, columns: [
    ['Replica', (row) => row.name],
    ['State', (row) => [row.up, row.reason], ([up, reason]) => health(up, reason)],
    ['Since', (row) => row.since_at, dateTime],
    ['In flight', (row) => count(row.in_flight), null, 'amount'],
  ] });
  const summary = h('summary', {});
  const leftOut = h('div', {});
  const details = h('details', {}, summary, replicas.node, leftOut);
  let downBefore = 0;

  const update = (row) => {
    put('State', [row.up, row.reason, row.since_at], ([up, reason, at]) => [health(up, reason), at && [', since ', dateTime(at)]]);
    put('Breaker', row.breaker, (breaker) => h('span', { class: breaker !== 'closed' && 'bad' }, breaker.replace('_', ' ')));
    put('In flight', `${count(row.in_flight)} of ${count(row.max_in_flight)}`);
    put('Queue', `${count(row.queued)} of ${count(row.max_queued)}`);
    put('Tools', [count(row.tools), row.tools_shut], ([tools, shut]) => [
      h('a', { href: `#/tools?backend=${encodeURIComponent(name)}`, 'aria-label': `${tools} tools of ${name}` }, tools),
      shut > 0 && h('span', { class: 'bad' }, `, ${count(shut)} shut off`)]);
    put('Catalogue', row.age_s === null ? 'not fetched yet' : `fetched ${ago(row.age_s)}`);
    put('Accepted', row.pending, count);
    put('Event stream', row.stream_up, (isUp) => health(isUp));
    if (askedAt !== null && row.age_s !== null && row.age_s < askedAt) {
      askedAt = null;
      tell('fetched anew');
      asked.textContent = '';
    }
    age = row.age_s;
    const down = row.replicas.filter((each) => !each.up).length;
    const left = row.left_out.length + row.left_out_more;
    details.hidden = row.replicas.length === 0 && left === 0;
    draw(summary, [row.replicas.length, down, left], ([all]) => [`${count(all)} ${all === 1 ? 'replica' : 'replicas'}`,
      down > 0 && h('span', { class: 'bad' }, `, ${count(down)} down`), left > 0 && `, ${count(left)} ${left === 1 ? 'tool' : 'tools'} left out`]);
    if (down > 0 && downBefore === 0) details.open = true;
    downBefore = down;
    replicas.update(row.replicas);
    draw(leftOut, [row.left_out, row.left_out_more], ([tools, more]) => left > 0 && [h('h3', {}, 'Tools left out'),
      facts(tools.map(({ tool, reason }) => [tool, reason])), more > 0 && h('p', { class: 'muted' }, `and ${count(more)} more`)]);
  };
  return { update, node: h('li', {},
    h('div', { class: 'line' }, h('h2', {}, name), h('span', { class: 'muted' }, protocol), h('span', { class: 'line end' }, asked, refresh)), figures, details) };
}
