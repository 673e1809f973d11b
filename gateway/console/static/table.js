// Lists and tables that change in place, so that focus and selection outlive an update; and a filter for them.

import { draw, h, notice } from './dom.js';
import { count } from './format.js';

/** Keeps a node for each row, in order, after `start`: `make(row)` gives `{node, update(row)}`. */
export function keyed(parent, keyOf, make, start = null) {
  let shown = new Map();
  return (rows) => {
    const next = new Map(rows.map((row) => [keyOf(row), shown.get(keyOf(row)) ?? make(row)]));
    for (const row of rows) next.get(keyOf(row)).update(row);
    for (const [key, { node }] of shown) {
      if (next.has(key)) continue;
      if (node.contains(document.activeElement)) parent.closest('[tabindex="-1"]').focus({ preventScroll: true });
      node.remove();
    }
    let at = start ? start.nextSibling : parent.firstChild;
    for (const { node } of next.values()) {
      if (node === at) at = at.nextSibling;
      else parent.insertBefore(node, at);
    }
    shown = next;
  };
}

/**
 * A table. A column is `[title, value, make, class]`: `value(row)` is what a cell depends on, `make(value, row)` its content.
 * With `detail`, `{label, make}`, a button shows more. The roles are for narrow screens, where rows are blocks.
 */
export function table({ caption, columns, key, detail }) {
  const row = (cells, name) => h('tr', { role: 'row', class: name }, cells);
  const group = (tag, ...rows) => h(tag, { role: 'rowgroup' }, rows);
  const title = (text, name) => h('th', { scope: 'col', role: 'columnheader', class: name }, text);
  const head = group('thead', row([columns.map(([text, , , name]) => title(text, name)), detail && title('More')]));
  const body = detail ? null : group('tbody');
  const node = h('table', { role: 'table', tabindex: '-1' }, h('caption', {}, caption), head, body);
  const make = (first) => {
    const cells = columns.map(([text, , , name]) => h('td', { role: 'cell', class: name, 'data-title': text }));
    const line = row(cells);
    const update = (each) => columns.forEach(([, value, content], index) => {
      draw(cells[index], value(each), content && ((data) => content(data, each)));
    });
    if (!detail) return { node: line, update };
    let more = null;
    const button = h('button', { type: 'button', class: 'small', 'aria-expanded': 'false', 'aria-label': detail.label(first), on: { click: () => {
      more?.remove();
      more = more ? null : row(h('td', { role: 'cell', colspan: columns.length + 1 }, detail.make(first)), 'more');
      if (more) line.after(more);
      button.setAttribute('aria-expanded', more !== null);
    } } }, 'Details');
    line.append(h('td', { role: 'cell' }, button));
    return { node: group('tbody', line), update };
  };
  const change = keyed(body ?? node, key, make, body ? null : head);
  const update = (rows) => {
    change(rows);
    node.hidden = rows.length === 0;
  };
  return { node, update };
}

/** A field to filter rows: every word must be in `textOf(row)`, in lower case; `status:4` also finds `STATUS:404`. */
export function filtered({ hint, query, noun, none, textOf, show, extra }) {
  const input = h('input', { type: 'search', id: 'filter', placeholder: hint, autocomplete: 'off', spellcheck: 'false', value: query.get('q') });
  const said = h('p', { class: 'muted' });
  const texts = new WeakMap();
  let rows = [];
  let timer = null;
  const redraw = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    const fitting = rows.filter((row) => {
      if (!texts.has(row)) texts.set(row, textOf(row));
      return words.every((word) => [word, word.replace(/^\w+:/, (name) => name.toUpperCase())].some((each) => texts.get(row).includes(each)));
    });
    show(fitting);
    const all = `${count(rows.length)} ${noun}${rows.length === 1 ? '' : 's'}`;
    draw(said, rows.length === 0 ? none : fitting.length < rows.length ? `${count(fitting.length)} of ${all}` : all);
  };
  input.addEventListener('input', () => {
    redraw();
    clearTimeout(timer);
    timer = setTimeout(() => notice(said.textContent), 500);
  });
  const update = (given) => {
    rows = given;
    redraw();
  };
  return { update, nodes: [h('div', { class: 'line', role: 'search' },
    h('span', { class: 'labelled wide' }, h('label', { for: 'filter' }, 'Filter'), input), extra), said] };
}
