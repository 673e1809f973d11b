// A tool's page: what it is, how it does, what it takes, and a way to try it.

import { get } from './api.js';
import { h, fill } from './dom.js';
import { count, duration } from './format.js';
import { schemaText, schemaTree } from './schema.js';
import { tryIt } from './send.js';

/** Shows the page of the tool `params.name`. */
export async function show(main, { params, query, signal, session }) {
  const version = query.get('version');
  const tool = await get(`tools/${encodeURIComponent(params.name)}${version ? `?version=${encodeURIComponent(version)}` : ''}`, { signal });
  document.title = `${tool.name} · Toolgate`;
  fill(main,
    h('p', { class: 'crumbs' }, h('a', { href: '#/tools' }, 'Tools')),
    h('h1', { tabindex: '-1' }, tool.name),
    description(tool),
    h('div', { class: 'tool' }, tryIt(tool, { session, signal }), h('div', { class: 'about' }, ...about(tool))));
}

const LONG = 600; // characters

function description({ description: text }) {
  if (!text) return h('p', { class: 'muted' }, 'It has no description.');
  const whole = h('p', { class: 'text description' }, text);
  if (text.length <= LONG) return whole;
  return h('details', { class: 'description' }, h('summary', { class: 'text' }, `${text.slice(0, LONG / 2)}…`), whole);
}

function about(tool) {
  const schema = (label, given) => [h('h2', {}, label), ...(given === null || given === undefined
    ? [h('p', { class: 'muted' }, tool.too_large ? 'Too large to be shown.' : 'The tool does not say.')]
    : [schemaTree(given, label), jsonOf(given, label)])];
  return [
    h('h2', {}, 'Facts'), h('dl', { class: 'facts' }, ...facts(tool)),
    ...schema('What it takes', tool.input_schema),
    ...schema('What it returns', tool.output_schema),
  ];
}

/** A schema as JSON, written only when it is asked for. */
function jsonOf(schema, label) {
  const pre = h('pre', { tabindex: '0', 'aria-label': `${label}, as JSON Schema` });
  return h('details', { on: { toggle: () => { pre.textContent ||= schemaText(schema); } } }, h('summary', {}, 'JSON Schema'), pre);
}

function facts(tool) {
  const { route, outcomes = {}, recent } = tool;
  const rows = [
    ['Version', versions(tool)],
    ['Backend', h('a', { href: `#/tools?backend=${encodeURIComponent(tool.backend)}` }, `${tool.backend} (${tool.protocol})`)],
    ['In MCP', tool.dialect_names?.mcp ? h('code', {}, tool.dialect_names.mcp) : null],
    ['Route', route ? h('code', {}, route.tools) : null],
    ['Timeout', route ? duration(route.timeout_s) : null],
    ['Scopes', route?.scopes?.length ? codes(route.scopes) : 'none'],
    ['Repeatable', route ? (route.idempotent ? 'yes: a repetition does no harm' : 'no') : null],
    ['Checks arguments', route?.validate_input ? String(route.validate_input) : null],
    ['Checks results', route?.validate_output ? String(route.validate_output) : null],
    ['Forwards', route?.forward_headers?.length ? codes(route.forward_headers) : null],
    ['Needs', needs(tool.requires)],
    ['Calls', Object.keys(outcomes).length > 0
      ? Object.entries(outcomes).map(([name, times]) => `${name.replaceAll('_', ' ')}: ${count(times)}`).join(', ') : 'none since the start'],
    ['Times lately', recent ? `${duration(recent.p50_s)} half of ${count(recent.count)} calls, ${duration(recent.p99_s)} nearly all` : null],
  ];
  return rows.filter(([, value]) => value !== null && value !== '').flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]);
}

const codes = (list) => h('span', {}, ...list.flatMap((each) => [h('code', {}, each), ' ']));

function versions({ name, version, versions: all = [] }) {
  const link = (each) => h('a', { href: `#/tools/${encodeURIComponent(name)}?version=${encodeURIComponent(each)}` }, each);
  return h('span', {}, version, ...all.filter((each) => each !== version).flatMap((each) => [', ', link(each)]));
}

function needs(requires) {
  const ids = (name) => (Array.isArray(requires?.[name]) ? requires[name].map((each) => String(each?.id)) : []);
  return [...(requires?.user_id ? ['a user'] : []), ...ids('secrets').map((id) => `secret ${id}`), ...ids('authorization').map((id) => `consent ${id}`)]
    .join(', ');
}
