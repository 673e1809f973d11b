// The state of the gateway at a glance.

import { get, poll } from './api.js';
import { draw, facts, fill, h, health } from './dom.js';
import { ago, bytes, count, dateTime, duration, rate } from './format.js';
import { plot } from './plot.js';
import { table } from './table.js';

const EVERY_MS = 5000;
const ONE = ['', 'accent'];
const BOTH = [['p50', 'accent'], ['p99', 'second']];

/** Shows the overview. */
export async function show(main, { signal }) {
  const view = build();
  await poll(async () => view.update(await get('overview', { signal })), EVERY_MS, signal);
  fill(main, h('h1', {}, 'Overview'), view.nodes);
}

function build() {
  const [head, reasons, store, issuers, replicas] = Array.from({ length: 5 }, () => h('div', {}));
  const idle = h('p', {}, 'No calls in the last 15 minutes. ', h('a', { href: '#/tools' }, 'Try a tool'));
  const seconds = (ms) => duration(ms === null ? null : ms / 1000);
  const plots = [plot('Calls per second', [ONE], rate), plot('Failures per second', [['', 'worse']], rate), plot('Refusals', [['', 'second']], rate),
    plot('Time of a call', BOTH, seconds), plot("The gateway's own share", BOTH, seconds)];
  const [calls, failures, refusals, times, own] = plots;
  refusals.node.append(reasons);
  const grid = h('div', { class: 'plots' }, plots.map((each) => each.node));
  const list = table({ caption: 'Issuers of tokens', key: (row) => row.name, columns: [
    ['Name', (row) => row.name],
    ['State', (row) => row.up, (up) => health(up)],
    ['Keys', (row) => count(row.keys), null, 'amount'],
    ['Fetched', (row) => ago(row.age_s)],
    ['Reason', (row) => row.reason ?? ''],
  ] });

  const updatePlots = (history) => {
    const rates = (numbers) => numbers.map((each) => each / history.step_s);
    const refused = Object.entries(history.refusals).map(([reason, numbers]) => [reason, sum(numbers)]).filter(([, all]) => all > 0);
    const isIdle = sum(history.calls) === 0;
    idle.hidden = !isIdle;
    grid.hidden = isIdle && refused.length === 0;
    calls.update(rates(history.calls));
    failures.update(rates(history.failures));
    refusals.update(rates(history.calls.map((_, index) => sum(Object.values(history.refusals).map((numbers) => numbers[index] ?? 0)))));
    times.update(history.p50_ms, history.p99_ms);
    own.update(history.own_p50_ms, history.own_p99_ms);
    draw(reasons, refused, () => facts(refused.sort(([, a], [, b]) => b - a).map(([reason, all]) => [reason, count(all)])));
  };
  const update = (overview) => {
    const { status, version, started_at: startedAt, now, reload } = overview;
    draw(head, [status, version, startedAt, duration(Math.round(now - startedAt)), reload], headWords);
    updatePlots(overview.history);
    draw(store, [overview.state, overview.authorization], storeWords);
    draw(issuers, overview.issuers.length === 0 ? 'No issuers are configured.' : '');
    list.update(overview.issuers);
    draw(replicas, [
      ...overview.replicas.map((each) => [each.name, each.is_this ? 'this one' : `seen ${ago(each.seen_s)}`]),
      ...overview.workers.map((each) => [`Worker ${each.number}`, `${each.status} (process ${each.pid})`]),
    ], facts);
  };
  const section = (title, ...inside) => h('section', {}, h('h2', {}, title), inside);
  return { update, nodes: [
    head, section('The last 15 minutes', idle, grid),
    h('div', { class: 'plots' }, section('State store', store), section('Replicas of the gateway', replicas)),
    section('Issuers', issuers, list.node)] };
}

const sum = (numbers) => numbers.reduce((all, each) => all + each, 0);

function headWords([status, version, startedAt, uptime, { read_at: readAt, is_current: isCurrent, problems }]) {
  const reload = [dateTime(readAt), ' · ', isCurrent ? 'in use' : h('strong', { class: 'bad' }, '✕ failed: the configuration before it is in use')];
  return [facts([['Status', status], ['Version', version], ['Uptime', [`${uptime}, since `, dateTime(startedAt)]], ['Last reload', reload]]),
    problems.length > 0 && h('ul', { class: 'bad', 'aria-label': 'Problems of the last reload' }, problems.map((each) => h('li', { class: 'text' }, each)))];
}

function storeWords([{ kept_in: keptIn, up, reason, used_bytes: used, max_bytes: max }, service]) {
  return facts([['Kept in', keptIn], ['State', health(up, reason)],
    ['Used', Number.isFinite(used) ? `${bytes(used)}${max ? ` of ${bytes(max)}` : ''}` : null],
    ['Authorization service', service && health(service.up, service.reason)]]);
}
