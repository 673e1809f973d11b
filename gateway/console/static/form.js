// A form made from a JSON Schema. What it cannot show without losing something becomes a field of raw JSON.

import { h } from './dom.js';
import { isObject, member, put, same } from './json.js';
import {
  constantControl, controlOf, freshId, listControl, numberControl, rawControl, textControl, UnreadableError,
} from './inputs.js';
import { alternatives, fits, flatten, itemOf, limits, membersOf, startOf, typesOf, typeWords } from './shapes.js';

const MAX_DEPTH = 10; // of fields that stand inside each other
const MAX_CONTROLS = 1000;
const MAX_HINT = 400; // characters of a description; the tree of the schema has all of it
const MAX_START_ITEMS = 20;
const TOO_DEEP = 'This part is too deep for a form: write it as JSON.';

/** Makes the form of a schema, with `value` in it; undefined begins with defaults and examples. */
export function formOf(root, value, labels) {
  return control({ root, count: 0 }, root, value, 0, { labels });
}

/** Makes the control of a schema; `names` are the ids of what names and explains it. */
function control(form, given, value, depth, names) {
  form.count += 1;
  if (depth > MAX_DEPTH || form.count > MAX_CONTROLS) return rawControl(value, names, TOO_DEEP);
  const { schema } = flatten(form.root, given);
  const made = pick(form, schema, value === undefined ? startOf(schema) : value, depth, names);
  return value === undefined || shows(made, value) ? made : rawControl(value, names);
}

function shows(made, value) {
  try {
    return same(made.read(), value);
  } catch (error) {
    if (error instanceof UnreadableError) return false;
    throw error;
  }
}

function pick(form, schema, value, depth, names) {
  if (Object.hasOwn(schema, 'const')) return constantControl(schema.const, names);
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return listControl(schema.enum, value, names);
  const choice = alternatives(form.root, schema);
  if (choice.length === 1) return control(form, choice[0].schema, value, depth + 1, names);
  if (choice.length > 1) return choiceControl(form, choice, value, depth, names);
  switch (typesOf(schema)[0]) {
    case 'object': return objectControl(form, schema, value, depth, names);
    case 'array': return arrayControl(form, schema, value, depth, names);
    case 'boolean': return listControl([false, true], value, names);
    case 'integer':
    case 'number': return numberControl(schema, value, names);
    case 'string': return textControl(schema, value, names);
    case 'null': return constantControl(null, names);
    default: return rawControl(value, names, 'Any JSON, such as 5, "text" or {"a": 1}.');
  }
}

/** A value of one of several forms: which one is chosen above its field. */
function choiceControl(form, choice, value, depth, names) {
  const options = choice.map(({ label }, index) => h('option', { value: String(index) }, label));
  const select = h('select', { class: 'choice', 'aria-labelledby': names.labels ?? null, 'aria-label': 'Form' }, ...options);
  if (names.labels) select.removeAttribute('aria-label');
  else select.removeAttribute('aria-labelledby');
  const found = value === undefined ? 0 : choice.findIndex(({ schema }) => fits(form.root, schema, value));
  const slot = h('div', { class: 'chosen' });
  let inner = null;
  const choose = (index, start) => {
    inner = control(form, choice[index].schema, start, depth + 1, { labels: names.labels, hint: names.hint });
    slot.replaceChildren(inner.node);
  };
  select.value = String(Math.max(found, 0));
  choose(Math.max(found, 0), found < 0 ? undefined : value);
  select.addEventListener('change', () => {
    let before;
    try {
      before = inner.read();
    } catch {
      before = undefined;
    }
    const { schema } = choice[Number(select.value)];
    choose(Number(select.value), before !== undefined && fits(form.root, schema, before) ? before : undefined);
  });
  return controlOf(select, () => inner.read(), {
    inner: [select, slot], find: (path) => inner.find(path), clear: () => inner.clear(),
  });
}

/** An object: a field for each member, and rows for names of the reader's own where the schema takes them. */
function objectControl(form, schema, value, depth, names) {
  const given = isObject(value) ? value : {};
  const members = membersOf(schema);
  const fields = members.map(([name, inner, isRequired]) => [name, field(form, name, inner, member(given, name), isRequired, depth)]);
  const known = new Set(members.map(([name]) => name));
  const others = Object.entries(given).filter(([name]) => !known.has(name));
  const more = schema.additionalProperties;
  const isOpen = more === true || isObject(more) || isObject(schema.patternProperties) || members.length === 0;
  const rows = (isOpen && more !== false) || (others.length > 0 && more !== false)
    ? rowsControl(form, isObject(more) ? more : {}, others, depth) : null;
  const group = h('div', { role: 'group', class: depth > 0 ? 'object nested' : 'object', tabindex: '-1' },
    ...fields.map(([, each]) => each.node), rows?.node ?? null);
  if (names.labels) group.setAttribute('aria-labelledby', names.labels);
  if (members.length === 0 && rows === null) group.append(h('p', { class: 'muted' }, depth > 0 ? 'No members.' : 'No arguments.'));
  const read = () => {
    const made = {};
    for (const [name, each] of fields) {
      const read_ = each.read();
      if (read_ !== undefined) put(made, name, read_);
    }
    for (const [name, each] of rows?.pairs() ?? []) put(made, name, each);
    return made;
  };
  const find = (path) => {
    for (const [name, each] of [...fields, ...(rows?.entries() ?? [])].sort(([a], [b]) => b.length - a.length)) {
      const rest = path.slice(name.length);
      if (path.startsWith(name) && (rest === '' || /^[.[]/.test(rest))) return each.find(rest.replace(/^\./, ''));
    }
    return null;
  };
  const clear = () => [...fields.map(([, each]) => each), ...(rows?.entries() ?? []).map(([, each]) => each)]
    .forEach((each) => each.clear());
  return controlOf(group, read, { find, clear });
}

/** One member of an object with its name, its type, its description and, if it is optional, whether it is sent. */
function field(form, name, given, value, isRequired, depth) {
  const { schema } = flatten(form.root, given);
  const id = freshId('field');
  const labels = `${id}-name`;
  const description = typeof schema.description === 'string' ? schema.description : '';
  const hintText = description.length > MAX_HINT ? `${description.slice(0, MAX_HINT)}…` : description;
  const said = limits(schema).join(' · ');
  const hint = hintText || said ? `${id}-hint` : null;
  const slot = h('div', {});
  const include = isRequired ? null : h('input', { type: 'checkbox', 'aria-label': `Send ${name}`, class: 'include' });
  const names = { id, labels, hint };
  const isFolded = !isRequired && isNested(form, schema);
  let inner = null;
  const open = (start) => {
    inner = control(form, given, start, depth + 1, names);
    slot.replaceChildren(inner.node);
  };
  const isSent = isRequired || value !== undefined;
  if (!isFolded || isSent) open(value);
  if (include !== null) {
    include.checked = isSent;
    include.addEventListener('change', () => {
      if (include.checked && inner === null) open(undefined);
      if (isFolded) slot.hidden = !include.checked;
    });
    slot.addEventListener('input', (event) => {
      const isOwnText = event.target === inner?.target && /^(INPUT|TEXTAREA)$/.test(event.target.tagName);
      include.checked = !isOwnText || event.target.value !== '';
    });
    slot.addEventListener('change', () => { if (inner?.target.tagName === 'SELECT') include.checked = true; });
  }
  const head = h('div', { class: 'field-head' }, include,
    h(isNested(form, schema) ? 'span' : 'label', { id: labels, for: id, class: 'name' }, name), ' ',
    h('span', { class: 'type' }, typeWords(form.root, given)),
    isRequired ? h('strong', { class: 'required' }, 'required') : null);
  const about = hint ? h('p', { class: 'hint', id: hint }, hintText, hintText && said ? h('br') : null, said) : null;
  return {
    node: h('div', { class: include ? 'field optional' : 'field' }, head, about, slot),
    read: () => (include === null || include.checked ? inner?.read() : undefined),
    find: (path) => {
      if (inner === null) open(undefined);
      return inner.find(path);
    },
    clear: () => inner?.clear(),
  };
}

/** Whether a member is drawn as a group of fields, and so only once it is wanted. */
function isNested(form, schema) {
  const isGroup = (each) => typesOf(flatten(form.root, each).schema).some((type) => type === 'object' || type === 'array');
  return isGroup(schema) || alternatives(form.root, schema).some((each) => isGroup(each.schema));
}

const button = (label, text, act) => h('button', { type: 'button', class: 'small', 'aria-label': label, title: label, on: { click: act } }, text);

/** Tells the form that it has changed without a field that was typed in. */
const changed = (node) => node.dispatchEvent(new Event('change', { bubbles: true }));

/** An array: items that are added, removed and moved. */
function arrayControl(form, schema, value, depth, names) {
  const items = [];
  const list = h('ol', { class: 'items' });
  const limit = Number.isInteger(schema.maxItems) ? schema.maxItems : Infinity;
  const add = h('button', { type: 'button', class: 'small' }, 'Add item');
  const group = h('div', { role: 'group', class: 'array nested', tabindex: '-1' }, list, add);
  if (names.labels) group.setAttribute('aria-labelledby', names.labels);
  const renumber = () => {
    items.forEach((item, index) => item.name(index));
    list.replaceChildren(...items.map((item) => item.node));
    add.disabled = items.length >= limit;
  };
  const insert = (start) => {
    const item = arrayItem(form, itemOf(schema, items.length), start, depth, names.labels, {
      move: (by) => {
        const from = items.indexOf(item);
        if (from + by < 0 || from + by >= items.length) return;
        items.splice(from + by, 0, ...items.splice(from, 1));
        renumber();
        changed(list);
      },
      remove: () => {
        const from = items.indexOf(item);
        items.splice(from, 1);
        renumber();
        (items[Math.min(from, items.length - 1)]?.inner.target ?? add).focus();
        changed(list);
      },
    });
    items.push(item);
    renumber();
    return item;
  };
  add.addEventListener('click', () => {
    insert(undefined).inner.target.focus();
    changed(list);
  });
  const least = Number.isInteger(schema.minItems) ? Math.min(schema.minItems, MAX_START_ITEMS) : 0;
  for (const each of Array.isArray(value) ? value : Array(least).fill(undefined)) insert(each);
  const find = (path) => {
    const [all, index] = /^\[(\d+)\]\.?/.exec(path) ?? [];
    return items[Number(index)]?.inner.find(path.slice(all.length));
  };
  const read = () => items.map((item) => item.inner.read() ?? null);
  return controlOf(group, read, { find, clear: () => items.forEach((item) => item.inner.clear()) });
}

function arrayItem(form, given, value, depth, labels, { move, remove }) {
  const id = freshId('item');
  const head = h('span', { id, class: 'name' });
  const inner = control(form, given, value, depth + 1, { labels: `${labels ?? ''} ${id}`.trim() });
  const buttons = h('span', { class: 'buttons' });
  const up = button('', '↑', () => { move(-1); up.focus(); });
  const down = button('', '↓', () => { move(1); down.focus(); });
  const gone = button('', '✕', remove);
  buttons.append(up, down, gone);
  const name = (index) => {
    head.textContent = `Item ${index + 1}`;
    for (const [each, text] of [[up, 'Move item N up'], [down, 'Move item N down'], [gone, 'Remove item N']]) {
      each.setAttribute('aria-label', text.replace('N', index + 1));
      each.title = text.replace('N', index + 1);
    }
  };
  return { inner, name, node: h('li', {}, h('div', { class: 'field-head' }, head, buttons), inner.node) };
}

/** Members whose names the reader chooses: a row of name and value for each. */
function rowsControl(form, given, start, depth) {
  const rows = [];
  const list = h('div', { class: 'items' });
  const add = h('button', { type: 'button', class: 'small' }, 'Add member');
  const insert = (name, value) => {
    const id = freshId('member');
    const key = h('input', { type: 'text', id, 'aria-label': 'Name of the member', placeholder: 'name', autocomplete: 'off' });
    key.value = name;
    const inner = control(form, given, value, depth + 1, { labels: id });
    const row = { key, inner };
    const gone = button('Remove this member', '✕', () => {
      rows.splice(rows.indexOf(row), 1);
      node.remove();
      add.focus();
      changed(list);
    });
    const node = h('div', { class: 'member' }, key, inner.node, gone);
    rows.push(row);
    list.append(node);
    return row;
  };
  for (const [name, value] of start) insert(name, value);
  add.addEventListener('click', () => {
    insert('', undefined).key.focus();
    changed(list);
  });
  const entries = () => rows.filter(({ key }) => key.value !== '').map(({ key, inner }) => [key.value, inner]);
  const pairs = () => entries().map(([name, inner]) => [name, inner.read()]).filter(([, value]) => value !== undefined);
  return { node: h('div', { class: 'rows' }, list, add), entries, pairs };
}
