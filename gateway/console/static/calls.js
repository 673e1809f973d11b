// The calls that run or wait now, and a way to cancel them.

import { get, poll, post } from './api.js';
import { fill, h, notice } from './dom.js';
import { count, duration } from './format.js';
import { filtered, table } from './table.js';

const EVERY_MS = 2000;
const TICK_MS = 1000;
const CONFIRM_MS = 4000;
const STATES = { accepted: 'the tool server works on it', awaiting_user: "waits for its user's consent" };
const stateOf = (row) => STATES[row.state] ?? row.state;

/** Shows the calls. */
export async function show(main, { query, signal }) {
  let shown = [];
  let fetched = 0;
  const outcome = h('p', { class: 'text' });
  const more = h('p', { class: 'muted' });
  const tell = (text) => {
    outcome.textContent = text;
    notice(text);
  };
  const age = (row) => Math.max(1, Math.floor(row.age_s + (performance.now() - fetched) / 1000));
  const list = table({ caption: 'Calls that run or wait, the oldest first', key: (row) => row.id, columns: [
    ['State', stateOf],
    ['Tool', (row) => [row.tool, row.version], ([tool, version]) => [
      h('a', { href: `#/tools/${encodeURIComponent(tool)}` }, tool), version && `@${version}`]],
    ['Backend', (row) => row.backend ?? ''],
    ['Caller', (row) => row.caller ?? ''],
    ['Age', (row) => duration(age(row)), null, 'amount'],
    ['Cancel', (row) => row.id, (_, row) => cancelButton(row, tell)],
  ] });
  const filter = filtered({
    hint: 'Tool, caller or state', query, noun: 'call', none: 'No calls are running or waiting.',
    textOf: (row) => [row.tool, row.version, row.backend, row.caller, row.state, stateOf(row)].join('\n').toLowerCase(),
    show(rows) {
      shown = rows;
      list.update(rows);
    },
  });
  await poll(async () => {
    const { calls, total } = await get('calls', { signal });
    fetched = performance.now();
    filter.update(calls);
    more.textContent = total > calls.length ? `These are the oldest of ${count(total)}.` : '';
  }, EVERY_MS, signal);
  fill(main, h('h1', {}, 'Calls'), outcome, filter.nodes, more, list.node);
  await poll(async () => list.update(shown), TICK_MS, signal);
}

/** A button that cancels a call once it is pressed again. */
function cancelButton({ id, tool, caller }, tell) {
  const name = `call of ${tool} by ${caller ?? 'nobody known'}`;
  const button = h('button', { type: 'button', class: 'small' });
  let timer = null;
  const ask = (isSure) => {
    clearTimeout(timer);
    timer = isSure ? setTimeout(() => ask(false), CONFIRM_MS) : null;
    button.textContent = isSure ? 'Really cancel?' : 'Cancel';
    button.setAttribute('aria-label', isSure ? `Really cancel? The ${name}` : `Cancel ${name}`);
  };
  ask(false);
  button.addEventListener('click', async () => {
    const isSure = timer !== null;
    ask(!isSure);
    if (!isSure) return notice('Press again to cancel the call.');
    try {
      const { is_cancelled: isCancelled } = await post('calls/cancel', { id });
      tell(`The ${name} ${isCancelled ? 'is cancelled' : 'was over already'}.`);
    } catch (error) {
      tell(`The ${name} is not cancelled: ${error.message}`);
    }
  });
  return button;
}
