// A JSON Schema drawn as a tree that opens level by level, so that recursion ends where its reader stops.

import { h } from './dom.js';
import { isObject, write } from './json.js';
import { flatten, itemOf, limits, membersOf, shown, typesOf, typeWords } from './shapes.js';

const MAX_ROWS = 500; // at one level
const MAX_DEPTH = 40;

/** Draws a schema; `label` names the tree. */
export function schemaTree(root, label) {
  const top = nodesBelow(root, root, 0, []);
  const { schema } = flatten(root, root);
  const about = [typeWords(root, schema), ...limits(schema)].join(' · ');
  if (top.length === 0) return h('p', { class: 'muted' }, about === 'object' ? 'No arguments.' : about);
  return h('ul', { class: 'schema', 'aria-label': label }, ...listed(top, 0));
}

function listed(nodes, depth) {
  const rows = nodes.slice(0, MAX_ROWS).map((node) => row(node, depth));
  if (nodes.length > MAX_ROWS) rows.push(h('li', { class: 'muted' }, `and ${nodes.length - MAX_ROWS} more`));
  return rows;
}

/** The nodes below a schema: `{name, given, root, isRequired, above}`; `above` are the references on the way there. */
function nodesBelow(root, given, depth, above) {
  const { schema, refs } = flatten(root, given);
  if (depth > MAX_DEPTH || refs.some((each) => above.includes(each))) return [];
  const way = [...above, ...refs];
  const node = (name, inner, isRequired = false) => ({ name, given: inner, root, isRequired, above: way });
  const nodes = membersOf(schema).map(([name, inner, isRequired]) => ({ ...node(name, inner, isRequired), isMember: true }));
  if (isObject(schema.patternProperties)) {
    for (const [pattern, inner] of Object.entries(schema.patternProperties)) nodes.push(node(`names like ${pattern}`, inner));
  }
  if (isObject(schema.additionalProperties)) nodes.push(node('any other name', schema.additionalProperties));
  const heads = Array.isArray(schema.prefixItems) ? schema.prefixItems : schema.items;
  if (Array.isArray(heads)) heads.forEach((inner, index) => nodes.push(node(`item ${index + 1}`, inner)));
  const rest = itemOf(schema, Array.isArray(heads) ? heads.length : 0);
  if (typesOf(schema).includes('array') && isObject(rest) && Object.keys(rest).length > 0) nodes.push(node('each item', rest));
  for (const [keyword, words] of [['oneOf', 'one of'], ['anyOf', 'any of']]) {
    if (!Array.isArray(schema[keyword])) continue;
    schema[keyword].forEach((inner, index) => nodes.push(node(`${words}: form ${index + 1}`, inner)));
  }
  for (const [keyword, words] of [['not', 'but not'], ['if', 'if it fits'], ['then', 'then'], ['else', 'otherwise']]) {
    if (schema[keyword] !== undefined) nodes.push(node(words, schema[keyword]));
  }
  return nodes;
}

function row(node, depth) {
  const { schema, refs, unresolved } = flatten(node.root, node.given);
  const isAgain = refs.some((each) => node.above.includes(each));
  const below = isAgain ? [] : nodesBelow(node.root, node.given, depth + 1, node.above);
  const head = [
    node.isMember ? h('code', { class: 'name' }, node.name) : h('span', { class: 'name' }, node.name), ' ',
    h('span', { class: 'type' }, typeWords(node.root, node.given)),
    node.isRequired ? h('strong', { class: 'required' }, ' required') : null,
    isAgain ? h('span', { class: 'muted' }, ` again ${refs.at(-1)}`) : null,
  ];
  const details = facts(schema, unresolved);
  if (below.length === 0) return h('li', {}, h('div', {}, ...head), ...details);
  const list = h('ul', {});
  const opened = h('details', {}, h('summary', {}, ...head), ...details, list);
  const fill = () => {
    if (opened.open && list.childElementCount === 0) list.append(...listed(below, depth + 1));
  };
  opened.addEventListener('toggle', fill);
  if (depth < 2 && below.length <= 12) {
    opened.open = true;
    fill();
  }
  return h('li', {}, opened);
}

/** The lines below a name: title, description, limits, default, examples, allowed values. */
function facts(schema, unresolved) {
  const lines = [];
  const said = limits(schema);
  if (typeof schema.title === 'string' && schema.title) lines.push(h('p', { class: 'text' }, schema.title));
  if (typeof schema.description === 'string' && schema.description) lines.push(h('p', { class: 'text' }, schema.description));
  if (said.length > 0) lines.push(h('p', { class: 'muted' }, said.join(' · ')));
  const values = (words, list) => h('p', { class: 'values' }, `${words} `, ...list.flatMap((each) => [h('code', {}, shown(each)), ' ']));
  if (Object.hasOwn(schema, 'const')) lines.push(values('always', [schema.const]));
  if (Array.isArray(schema.enum)) {
    lines.push(values('one of', schema.enum.slice(0, 50)));
    if (schema.enum.length > 50) lines.push(h('p', { class: 'muted' }, `and ${schema.enum.length - 50} more`));
  }
  if (schema.default !== undefined) lines.push(values('default', [schema.default]));
  if (Array.isArray(schema.examples)) lines.push(values('for example', schema.examples.slice(0, 5)));
  if (unresolved !== null) lines.push(h('p', { class: 'muted' }, `${unresolved} is not in this document.`));
  return lines;
}

/** The schema as its JSON text. */
export const schemaText = (schema) => write(schema, 2);
