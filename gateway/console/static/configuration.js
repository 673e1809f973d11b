// The configuration in use: what is set, to what, and where.

import { get } from './api.js';
import { fill, h } from './dom.js';
import { dateTime } from './format.js';
import { filtered } from './table.js';

/** Shows the configuration. */
export async function show(main, { query, signal }) {
  const { file, read_at: readAt, settings, remarks, truncated } = await get('configuration', { signal });
  const sections = new Map(); // by the first part of the path
  const rows = settings.map((setting) => {
    const name = /^[^.[]*/.exec(setting.path)[0];
    if (!sections.has(name)) sections.set(name, h('section', {}, h('h2', {}, name), h('dl', { class: 'settings' })));
    const made = row(setting);
    sections.get(name).lastChild.append(made.node);
    return made;
  });
  const filter = filtered({
    hint: 'Path, value or origin', query, noun: 'setting', none: 'Nothing is set.', textOf: (each) => each.text,
    show(fitting) {
      const fits = new Set(fitting);
      for (const each of rows) each.node.hidden = !fits.has(each);
      for (const node of sections.values()) node.hidden = node.querySelector('dl > :not([hidden])') === null;
    },
  });
  filter.update(rows);
  fill(main, h('h1', {}, 'Configuration'),
    h('p', {}, file === null ? 'No file' : h('code', {}, file), ', read ', dateTime(readAt)),
    h('h2', {}, 'What check says'), remarkList(remarks), filter.nodes, [...sections.values()],
    truncated && h('p', { class: 'muted' }, 'The rest is too long to be shown.'));
}

function remarkList(remarks) {
  if (remarks.length === 0) return h('p', {}, 'Nothing to remark.');
  return h('ul', {}, remarks.map(({ level, text, origin }) => h('li', { class: 'text' },
    h('strong', { class: level }, `${level}: `), text, origin && h('code', { class: 'muted' }, ` ${origin}`))));
}

function row({ path, value, origin }) {
  const text = typeof value === 'string' && value !== '' ? value : JSON.stringify(value);
  const node = h('div', {}, h('dt', {}, h('code', {}, path)), h('dd', {}, h('code', { class: 'text' }, text)), h('dd', { class: 'muted' }, origin));
  return { node, text: `${path}\n${text}\n${origin}`.toLowerCase() };
}
