// The simple fields of a form: text, number, yes or no, one of a list, a constant, raw JSON.
//
// A control is `{node, target, read(), find(path), fail(text), clear()}`: `read` gives its value, `target` takes the
// focus, `find` leads to the control of a part such as `items[2].name`, `fail` shows what is wrong.

import { h } from './dom.js';
import { asNumber, isNumber, parse, same, write } from './json.js';
import { shown } from './shapes.js';

let made = 0;

/** An id that no other element has. */
export const freshId = (prefix) => `${prefix}-${(made += 1)}`;

/** What keeps a form from being read: text that is not JSON. `control` is where. */
export class UnreadableError extends Error {
  constructor(control, message) {
    super(message);
    this.control = control;
  }
}

/** Makes a control of an element that takes the focus; `inner` are the nodes around it, `find` leads to parts. */
export function controlOf(target, read, { inner = [target], find = null, clear = null } = {}) {
  const error = h('p', { class: 'field-error', id: freshId('error'), hidden: true });
  const isField = target.matches('input, select, textarea');
  const described = target.getAttribute('aria-describedby') ?? '';
  const control = {
    target,
    read,
    node: h('div', { class: 'control' }, ...inner, error),
    find: (path) => (find === null ? control : find(path) ?? control),
    fail(text) {
      error.textContent = error.hidden ? text : `${error.textContent}; ${text}`;
      error.hidden = false;
      if (isField) target.setAttribute('aria-invalid', 'true');
      target.setAttribute('aria-describedby', `${target.getAttribute('aria-describedby') ?? ''} ${error.id}`.trim());
    },
    clear() {
      clear?.();
      if (error.hidden) return;
      error.hidden = true;
      error.textContent = '';
      target.removeAttribute('aria-invalid');
      target.setAttribute('aria-describedby', described);
    },
  };
  return control;
}

/** Attributes that say what a field is called and what explains it. */
const named = ({ id, labels, hint }) => ({
  ...(id ? { id } : {}), ...(labels ? { 'aria-labelledby': labels } : {}), ...(hint ? { 'aria-describedby': hint } : {}),
});

const TYPED = { email: 'email', uri: 'url', url: 'url', date: 'date', password: 'password' };
const SAMPLES = {
  'date-time': '2026-01-31T12:00:00Z', time: '12:00:00Z', duration: 'PT1H', uuid: '00000000-0000-0000-0000-000000000000',
  ipv4: '192.0.2.1', ipv6: '2001:db8::1', hostname: 'example.com',
};

/** A text; several lines where the schema or the value asks for it. */
export function textControl(schema, value, names) {
  const type = schema.writeOnly === true ? 'password' : TYPED[schema.format] ?? 'text';
  const start = typeof value === 'string' ? value : '';
  const attributes = { ...named(names), spellcheck: 'false', autocomplete: type === 'password' ? 'new-password' : 'off' };
  if (SAMPLES[schema.format]) attributes.placeholder = SAMPLES[schema.format];
  const isOneLine = type !== 'text' || (SAMPLES[schema.format] !== undefined && !start.includes('\n'));
  const input = isOneLine ? h('input', { ...attributes, type }) : h('textarea', { ...attributes, rows: start.includes('\n') ? '4' : '1' });
  input.value = start;
  return controlOf(input, () => input.value);
}

/** A number. What is no number is sent as the text it is, for the gateway to say what is wrong; nothing is left out. */
export function numberControl(schema, value, names) {
  const inputmode = schema.type === 'integer' ? 'numeric' : 'decimal';
  const input = h('input', { ...named(names), type: 'text', inputmode, autocomplete: 'off', class: 'number' });
  input.value = isNumber(value) ? write(value) : value ?? '';
  return controlOf(input, () => asNumber(input.value.trim()) ?? (input.value === '' ? undefined : input.value));
}

/** One value of a list. */
export function listControl(values, value, names) {
  const options = values.map((each, index) => h('option', { value: String(index) }, typeof each === 'string' ? each : shown(each)));
  const select = h('select', named(names), ...options);
  const index = values.findIndex((each) => same(each, value));
  select.value = String(Math.max(index, 0));
  return controlOf(select, () => values[Number(select.value)]);
}

/** A value that cannot be another. */
export function constantControl(value, names) {
  const { id: _id, ...rest } = named(names);
  const text = h('code', { ...rest, tabindex: '-1', role: 'note' }, shown(value));
  return controlOf(text, () => value);
}

/** JSON as text. `why` says why it is asked for. */
export function rawControl(value, names, why = null) {
  const start = value === undefined ? '' : write(value, 2);
  const rows = String(Math.min(12, Math.max(2, start.split('\n').length)));
  const area = h('textarea', { ...named(names), rows, spellcheck: 'false', class: 'raw' });
  area.value = start;
  const control = controlOf(area, () => readJson(area.value, control), { inner: [why ? h('p', { class: 'hint' }, why) : null, area] });
  return control;
}

function readJson(text, control) {
  if (text.trim() === '') return undefined;
  try {
    return parse(text);
  } catch (error) {
    throw new UnreadableError(control, `is not JSON: ${error.message}`);
  }
}
