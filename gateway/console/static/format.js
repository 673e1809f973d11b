// Numbers and times as their reader writes them.

import { h } from './dom.js';

const number = (options) => new Intl.NumberFormat(undefined, options);
const whole = number({ maximumFractionDigits: 0 });
const tenths = number({ maximumFractionDigits: 1 });
const small = number({ maximumSignificantDigits: 2 });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const calendar = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** Writes what is a number; all else is unknown. */
const known = (write) => (value) => (Number.isFinite(value) ? write(value) : '–');
const few = (value) => (value < 1 ? small : value < 100 ? tenths : whole).format(value);

export const count = known((value) => whole.format(value));

/** So many times in a second. */
export const rate = known((value) => `${few(value)}/s`);

/** A duration: `1.2 ms`, `3.4 s`, `2 min 5 s`, `3 d 4 h`. */
export const duration = known((seconds) => {
  if (seconds < 1) return `${few(seconds * 1000)} ms`;
  if (seconds < 60) return `${few(seconds)} s`;
  const all = Math.round(seconds);
  const [size, unit, part, partUnit] = all < 3600 ? [60, 'min', 1, 's'] : all < 86400 ? [3600, 'h', 60, 'min'] : [86400, 'd', 3600, 'h'];
  const rest = Math.floor((all % size) / part);
  return `${whole.format(Math.floor(all / size))} ${unit}${rest > 0 ? ` ${rest} ${partUnit}` : ''}`;
});

/** How long ago something was, given in seconds. */
export const ago = known((seconds) => (seconds < 1 ? 'just now' : `${duration(Math.round(seconds))} ago`));

export const bytes = known((value) => {
  const power = Math.max(0, Math.min(4, Math.floor(Math.log2(value) / 10)));
  return `${few(value / 1024 ** power)} ${['bytes', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`;
});

const element = (format) => known((at) => h('time', { datetime: new Date(at * 1000).toISOString(), title: calendar.format(at * 1000) }, format.format(at * 1000)));

/** The time of day of a moment in seconds since 1970. */
export const time = element(clock);

/** The same with its date. */
export const dateTime = element(calendar);
