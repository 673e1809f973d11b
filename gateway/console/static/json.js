// JSON that keeps every digit: a number that a double cannot hold stays as it was written.

const raw = JSON.rawJSON ?? Number;

function keep(_key, value, context) {
  const exact = typeof value !== 'number' || context === undefined || String(value) === context.source;
  return exact ? value : raw(context.source);
}

/** Reads JSON text; throws SyntaxError. */
export const parse = (text) => JSON.parse(text, keep);

/** Writes JSON text, with `indent` spaces a level. */
export const write = (value, indent = 0) => JSON.stringify(value, null, indent);

/** Whether a value is a number, of any precision. */
export const isNumber = (value) => typeof value === 'number' || JSON.isRawJSON?.(value) === true;

/** Whether a value is an object that has members. */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value) && !isNumber(value);

/** The value that a text is as a number of JSON; undefined if it is none. */
export function asNumber(text) {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return undefined;
  return parse(text);
}

/** Sets a member, whatever its name is (`__proto__` too). */
export function put(object, name, value) {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

/** A member of an object, or undefined; never one that the language gave it. */
export const member = (object, name) => (isObject(object) && Object.hasOwn(object, name) ? object[name] : undefined);

/** Whether two values are the same JSON; the order of members does not count. */
export function same(a, b, depth = 0) {
  if (a === b) return true;
  if (depth > 100) return false;
  if (isNumber(a) && isNumber(b)) return write(a) === write(b);
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((each, index) => same(each, b[index], depth + 1));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length
    && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name], depth + 1));
}
