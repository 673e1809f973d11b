// The arguments of a call: as a form or as JSON, whichever the reader wants, without loss between the two.

import { h } from './dom.js';
import { formOf } from './form.js';
import { freshId, rawControl, UnreadableError } from './inputs.js';

/** Makes the editor of a schema; null has no form. `onChange` is called whenever something was changed. */
export function argumentsEditor(schema, onChange) {
  const legend = freshId('arguments');
  const slot = h('div', {});
  const names = { labels: legend };
  let control = schema === null ? rawControl({}, names, 'The schema is too large for a form.') : formOf(schema, undefined, legend);
  let isRaw = schema === null;
  slot.append(control.node);

  const modes = ['Form', 'JSON'].map((text, index) => h('button', {
    type: 'button', class: 'small', 'aria-pressed': String(index === (isRaw ? 1 : 0)), on: { click: () => change(index === 1) },
  }, text));
  const change = (toRaw) => {
    if (toRaw === isRaw) return;
    control.clear();
    let value;
    try {
      value = control.read();
    } catch (error) {
      if (error instanceof UnreadableError) return fail(error);
      throw error;
    }
    isRaw = toRaw;
    control = isRaw ? rawControl(value, names) : formOf(schema, value, legend);
    slot.replaceChildren(control.node);
    modes.forEach((each, index) => each.setAttribute('aria-pressed', String((index === 1) === isRaw)));
    onChange();
  };
  const fail = ({ control: at, message }) => {
    at.clear();
    at.fail(message);
    at.target.focus();
  };
  slot.addEventListener('input', onChange);
  slot.addEventListener('change', onChange);
  return {
    node: h('div', { class: 'arguments' },
      h('div', { class: 'field-head' }, h('h3', { id: legend }, 'Arguments'),
        schema === null ? null : h('span', { class: 'modes', role: 'group', 'aria-label': 'How arguments are written' }, ...modes)),
      slot),
    /** The arguments; throws UnreadableError. */
    read: () => control.read() ?? {},
    fail,
    clear: () => control.clear(),
    /** Shows what is wrong at the fields it is about and goes to the first; `errors` are texts by parameter. */
    show(errors) {
      control.clear();
      let first = null;
      for (const { path, text } of Object.entries(errors).flatMap(places)) {
        const at = control.find(path);
        at.fail(isRaw ? `${path}: ${text}` : text);
        first ??= at.target;
      }
      first?.focus();
    },
  };
}

/** The places that the text about one parameter names: `at items[2].name: is required; at items[3]: is not a number`. */
function places([parameter, said]) {
  return String(said).split(/; (?=at )/).map((part) => {
    const [, path, text] = /^at (.+?): (.*)$/s.exec(part) ?? [];
    return path?.startsWith(parameter) ? { path, text } : { path: parameter, text: part };
  });
}

