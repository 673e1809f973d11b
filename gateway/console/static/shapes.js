// JSON Schema as far as a page needs it: references inside the document, forms to choose from, and words about limits.
// It never decides whether a value is valid; the gateway does.

import { isNumber, isObject, member, put, same, write } from './json.js';

const MAX_REFERENCES = 16;
const MAX_PARTS = 50; // of an allOf, and of a choice

/** What a reference points to inside the document; undefined if it is elsewhere or nowhere. */
function lookUp(root, reference) {
  if (reference === '#') return root;
  if (!reference.startsWith('#')) return undefined;
  let target = reference.slice(1);
  try {
    target = decodeURIComponent(target);
  } catch {
    return undefined;
  }
  if (!target.startsWith('/')) {
    const named = [...Object.values(root.$defs ?? {}), ...Object.values(root.definitions ?? {})];
    return named.find((each) => isObject(each) && (each.$anchor === target || each.$dynamicAnchor === target));
  }
  let node = root;
  for (const step of target.slice(1).split('/')) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~');
    node = Array.isArray(node) ? node[key] : member(node, key);
  }
  return node;
}

/** Two schemas that both apply, as one: members of both, the later one's keywords first. */
function combine(a, b) {
  const both = { ...a, ...b };
  if (a.properties && b.properties) both.properties = { ...a.properties, ...b.properties };
  if (Array.isArray(a.required) && Array.isArray(b.required)) both.required = [...new Set([...a.required, ...b.required])];
  return both;
}

/**
 * A schema with its references followed and its allOf folded in.
 * @returns {{schema: object, refs: string[], unresolved: string|null}} `refs` are those that were followed.
 */
export function flatten(root, given, depth = 0) {
  const refs = [];
  let schema = given;
  if (given === false) schema = { not: {} };
  if (!isObject(schema)) schema = {};
  for (;;) {
    const { $ref, $dynamicRef, ...rest } = schema;
    const reference = $ref ?? $dynamicRef;
    if (typeof reference !== 'string') break;
    const target = refs.length < MAX_REFERENCES && !refs.includes(reference) ? lookUp(root, reference) : undefined;
    if (target === undefined) return { schema: rest, refs, unresolved: reference };
    refs.push(reference);
    schema = isObject(target) ? combine(target, rest) : rest;
  }
  if (Array.isArray(schema.allOf) && depth < MAX_REFERENCES) {
    const { allOf, ...rest } = schema;
    schema = rest;
    for (const part of allOf.slice(0, MAX_PARTS)) {
      const flat = flatten(root, part, depth + 1);
      refs.push(...flat.refs);
      schema = combine(flat.schema, schema);
    }
  }
  return { schema, refs, unresolved: null };
}

const TYPES = ['object', 'array', 'string', 'integer', 'number', 'boolean', 'null'];

/** The type of a value, in the words of JSON Schema. */
export function typeOfValue(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (isNumber(value)) return Number.isInteger(Number(write(value))) ? 'integer' : 'number';
  return typeof value;
}

/** The types that a schema allows; none if it does not say. */
export function typesOf(schema) {
  const said = Array.isArray(schema.type) ? schema.type : [schema.type];
  const types = said.filter((type) => TYPES.includes(type));
  if (types.length === 0) {
    if (isObject(schema.properties) || isObject(schema.additionalProperties)) types.push('object');
    else if (schema.items !== undefined || Array.isArray(schema.prefixItems)) types.push('array');
  }
  if (schema.nullable === true && types.length > 0 && !types.includes('null')) types.push('null');
  return types;
}

const isConstant = (schema) => Object.hasOwn(schema, 'const');

/** The members of an object schema: `[name, schema, isRequired]`. */
export function membersOf(schema) {
  const required = Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : [];
  const members = Object.entries(isObject(schema.properties) ? schema.properties : {});
  const known = new Set(members.map(([name]) => name));
  for (const name of required) if (!known.has(name)) members.push([name, {}]);
  const isRequired = new Set(required);
  return members.map(([name, inner]) => [name, inner, isRequired.has(name)]);
}

/** The schema of the item at an index. */
export function itemOf(schema, index) {
  const heads = Array.isArray(schema.prefixItems) ? schema.prefixItems : schema.items;
  if (!Array.isArray(heads)) return schema.items ?? {};
  if (index < heads.length) return heads[index];
  return (heads === schema.items ? schema.additionalItems : schema.items) ?? {};
}

/** What a schema allows, in a few words: "array of integer", "string (date)". */
export function typeWords(root, given, depth = 0) {
  const { schema, unresolved } = flatten(root, given);
  if (unresolved !== null) return `reference to ${unresolved}`;
  if (isConstant(schema)) return 'constant';
  const choice = schema.oneOf ?? schema.anyOf;
  const types = typesOf(schema).map((type) => {
    if (type === 'array' && !Array.isArray(schema.items) && schema.items !== undefined && depth < 3) {
      return `array of ${typeWords(root, schema.items, depth + 1)}`;
    }
    return type === 'string' && typeof schema.format === 'string' ? `string (${schema.format})` : type;
  });
  if (types.length > 0) return types.join(' or ');
  if (Array.isArray(schema.enum)) return 'one of a list';
  if (Array.isArray(choice)) {
    const words = new Set(choice.slice(0, 5).map((each) => (depth < 3 ? typeWords(root, each, depth + 1) : 'any')));
    return words.size > 1 && choice.length <= 5 ? [...words].join(' or ') : `one of ${choice.length} forms`;
  }
  return schema.not !== undefined && Object.keys(schema).length === 1 ? 'nothing' : 'any';
}

/** Names one form of a choice for people. */
function labelOf(root, schema, own, number) {
  if (typeof own.title === 'string' && own.title) return own.title;
  if (isConstant(schema)) return write(schema.const);
  const marks = membersOf(own).flatMap(([name, inner]) => {
    const { schema: flat } = flatten(root, inner);
    return isConstant(flat) ? [`${name}: ${write(flat.const)}`] : [];
  });
  if (marks.length > 0) return marks[0];
  const required = Array.isArray(own.required) ? own.required.join(', ') : '';
  const words = typeWords(root, schema);
  if (words === 'object' || words === 'any') return required ? `with ${required}` : `form ${number}`;
  return words;
}

/** The forms of which a value has one: `[{label, schema}]`; empty if there is no choice. */
export function alternatives(root, schema) {
  for (const keyword of ['oneOf', 'anyOf']) {
    if (!Array.isArray(schema[keyword]) || schema[keyword].length === 0) continue;
    const { [keyword]: branches, default: _default, examples: _examples, title: _title, description: _text, ...base } = schema;
    return branches.slice(0, MAX_PARTS).map((branch, index) => {
      const own = flatten(root, branch).schema;
      const whole = combine(base, own);
      return { label: labelOf(root, whole, own, index + 1), schema: whole };
    });
  }
  const types = typesOf(schema);
  if (types.length < 2 || Array.isArray(schema.enum)) return [];
  const { nullable: _nullable, default: _default, examples: _examples, ...base } = schema;
  return types.map((type) => ({ label: type, schema: { ...base, type } }));
}

/** Whether a value looks as if it were meant for a schema: enough to choose between forms. */
export function fits(root, given, value, depth = 0) {
  const { schema } = flatten(root, given);
  if (depth > 4) return true;
  if (isConstant(schema)) return same(schema.const, value);
  if (Array.isArray(schema.enum)) return schema.enum.some((each) => same(each, value));
  const type = typeOfValue(value);
  const types = typesOf(schema);
  if (types.length > 0 && !types.includes(type) && !(type === 'integer' && types.includes('number'))) return false;
  const choice = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(choice) && !choice.slice(0, MAX_PARTS).some((each) => fits(root, each, value, depth + 1))) return false;
  if (Array.isArray(value)) return value.every((each, index) => fits(root, itemOf(schema, index), each, depth + 1));
  if (!isObject(value)) return true;
  const members = membersOf(schema);
  if (schema.additionalProperties === false) {
    const known = new Set(members.map(([name]) => name));
    if (Object.keys(value).some((name) => !known.has(name))) return false;
  }
  return members.every(([name, inner, isRequired]) => {
    const given_ = member(value, name);
    return given_ === undefined ? !isRequired : fits(root, inner, given_, depth + 1);
  });
}

/** What a field begins with: the default, else the first example; undefined if there is neither. */
export function startOf(schema) {
  if (schema.default !== undefined) return schema.default;
  if (Array.isArray(schema.examples) && schema.examples.length > 0) return schema.examples[0];
  return schema.example;
}

const cut = (text, length) => (text.length > length ? `${text.slice(0, length)}…` : text);

function range(least, most, noun) {
  if (least !== undefined && most !== undefined) return least === most ? `${least} ${noun}` : `${least} to ${most} ${noun}`;
  return least === undefined ? `at most ${most} ${noun}` : `at least ${least} ${noun}`;
}

/** The limits of a schema as short phrases: "1 to 6", "at most 80 characters". */
export function limits(schema) {
  const said = [];
  const numbers = (low, high) => [schema[low], schema[high]].map((each) => (isNumber(each) ? write(each) : undefined));
  const pairs = [['minimum', 'maximum', ''], ['minLength', 'maxLength', 'characters'], ['minItems', 'maxItems', 'items'],
    ['minProperties', 'maxProperties', 'members']];
  for (const [low, high, noun] of pairs) {
    const [least, most] = numbers(low, high);
    if (least !== undefined || most !== undefined) said.push(range(least, most, noun).trim());
  }
  const [above, below] = numbers('exclusiveMinimum', 'exclusiveMaximum');
  if (above !== undefined) said.push(`more than ${above}`);
  if (below !== undefined) said.push(`less than ${below}`);
  if (isNumber(schema.multipleOf)) said.push(`a multiple of ${write(schema.multipleOf)}`);
  if (schema.uniqueItems === true) said.push('no repeated items');
  if (typeof schema.pattern === 'string') said.push(`matches ${cut(schema.pattern, 200)}`);
  if (schema.deprecated === true) said.push('deprecated');
  return said;
}

/** A value in one line, cut where it is long. */
export const shown = (value, length = 200) => cut(typeof value === 'string' ? write(value) : write(value) ?? '', length);

/** An object of `[name, value]` pairs, whatever the names are. */
export function objectOf(pairs) {
  const made = {};
  for (const [name, value] of pairs) put(made, name, value);
  return made;
}
