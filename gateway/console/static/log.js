// The newest lines of the log, live.

import { get, poll } from './api.js';
import { facts, fill, h } from './dom.js';
import { dateTime, duration, time } from './format.js';
import { filtered, table } from './table.js';

const EVERY_MS = 1500;
const MAX_LINES = 500;

const whatOf = (line) => (line.tool ? `${line.tool}${line.version ? `@${line.version}` : ''}` : line.operation ?? '');
const plain = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value));
const seconds = (ms) => duration(ms / 1000);
const members = (line) => Object.entries(line).filter(([name, value]) => name !== 'key' && value !== null);

/** Shows the log. */
export async function show(main, { query, signal }) {
  let lines = []; // the newest first
  let after = '';
  let isPaused = false;
  const list = table({
    caption: 'Requests, the newest first', key: (line) => line.key,
    detail: { label: (line) => `Details of ${whatOf(line)}, ${line.request_id}`, make: details },
    columns: [
      ['Time', (line) => line.time, time, 'brief'],
      ['Status', (line) => line.status ?? '', (status) => h('span', { class: `status s${String(status)[0]}` }, status), 'brief'],
      ['Operation or tool', whatOf],
      ['Caller', (line) => line.principal ?? line.client ?? ''],
      ['Took', (line) => seconds(line.duration_ms), null, 'amount'],
      ['Reason', (line) => line.reason ?? line.outcome ?? ''],
    ],
  });
  const pause = h('button', { type: 'button', on: { click: () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? 'Resume' : 'Pause';
    look().catch(() => {});
  } } }, 'Pause');
  const filter = filtered({
    hint: 'Words, or such as status:4 tool:add', query, noun: 'line', none: 'No requests yet.', extra: pause,
    textOf: (line) => members(line).map(([name, value]) => `${name.toUpperCase()}:${plain(value).toLowerCase()}`).join('\n'),
    show: (rows) => keepPlace(list.node, () => list.update(rows)),
  });
  const look = async () => {
    if (isPaused) return;
    const page = await get(`log${after}`, { signal }).catch((error) => {
      after = ''; // begins anew next time
      throw error;
    });
    after = `?after=${encodeURIComponent(page.cursor)}`;
    const known = new Set(lines.map((line) => line.key));
    const fresh = page.lines.filter((line) => !known.has(line.key)).sort((a, b) => b.time - a.time);
    lines = [...fresh, ...lines].slice(0, MAX_LINES);
    if (fresh.length > 0 || lines.length === 0) filter.update(lines);
  };
  await poll(look, EVERY_MS, signal);
  fill(main, h('h1', {}, 'Log'), filter.nodes, list.node);
}

/** All that a line says. */
function details(line) {
  const writers = { time: dateTime, duration_ms: seconds, tool_ms: seconds };
  return facts(members(line).map(([name, value]) => [name.replace('_ms', '').replaceAll('_', ' '), (writers[name] ?? plain)(value)]));
}

/** Updates the table without moving what its reader looks at: what has the focus, or the first row in sight. */
function keepPlace(node, update) {
  const top = (each) => each.getBoundingClientRect().top;
  const isPassed = node.isConnected && top(node) < 0;
  const anchor = node.contains(document.activeElement) ? document.activeElement : isPassed && [...node.tBodies].find((each) => top(each) >= 0);
  const before = anchor && top(anchor);
  update();
  if (anchor && anchor.isConnected) scrollBy({ top: top(anchor) - before, behavior: 'instant' });
}
