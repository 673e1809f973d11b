// Elements and texts. What comes from the gateway becomes text nodes, never markup.

const isThere = (value) => value !== null && value !== undefined && value !== false;
const nodes = (children) => children.flat(Infinity).filter(isThere);

/** Makes an element. `on` has its listeners; true is an attribute without value; null, undefined and false are left out. */
export function h(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'on') Object.entries(value).forEach(([event, act]) => node.addEventListener(event, act));
    else if (isThere(value)) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...nodes(children));
  return node;
}

/** Replaces what an element contains. */
export function fill(node, ...children) {
  node.replaceChildren(...nodes(children));
}

const drawn = new WeakMap();

/** Fills an element with `make(data)`, only if the data have changed. */
export function draw(node, data, make) {
  const said = JSON.stringify(data);
  if (drawn.get(node) === said) return;
  drawn.set(node, said);
  fill(node, make ? make(data) : data);
}

/** Says a sentence to screen readers. */
export function notice(text) {
  const place = document.getElementById('notice');
  place.textContent = '';
  setTimeout(() => { place.textContent = text; }, 60); // so that the same sentence is said again
}

/** Words with the sign of good or bad. */
export const mark = (isGood, words) => h('span', { class: isGood ? 'good' : 'bad' }, h('span', { 'aria-hidden': 'true' }, isGood ? '✓ ' : '✕ '), words);

/** Up or down. */
export const health = (isUp, reason) => mark(isUp, `${isUp ? 'up' : 'down'}${reason ? `: ${reason}` : ''}`);

/** A list of facts, `[name, value]`; those without a value are left out. */
export function facts(rows) {
  return h('dl', { class: 'facts' }, rows.filter(([, value]) => isThere(value)).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}
