// Small plots of the last 15 minutes.

import { draw, h } from './dom.js';

const WIDTH = 360;
const HEIGHT = 80;
const STEPS = 90;

function shape(name, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** Makes a plot of lines, `[[name, class]]`; a single one is filled. `format` writes a value. */
export function plot(title, lines, format) {
  const area = shape('path', { class: `area ${lines[0][1]}` });
  const paths = lines.map(([, name]) => shape('path', { class: name }));
  const svg = shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' }, area, ...paths);
  const last = h('span', {});
  const max = h('span', {});
  const node = h('figure', {}, h('figcaption', {}, h('span', {}, title), last), svg,
    h('p', { class: 'scale', 'aria-hidden': 'true' }, h('span', {}, '15 min ago'), max, h('span', {}, 'now')));
  /** Shows a list of values for each line, the oldest first; null is a gap. */
  const update = (...series) => draw(last, series, () => {
    const highest = Math.max(0, ...series.flat());
    series.forEach((values, index) => paths[index].setAttribute('d', outline(values, highest)));
    if (lines.length === 1) area.setAttribute('d', outline(series[0], highest, true));
    const ends = lines.map(([label, name], index) => [name, `${label} ${format(series[index].at(-1))}`.trim()]);
    max.textContent = `max ${format(highest)}`;
    svg.setAttribute('aria-label', `${title} in 15 minutes: now ${ends.map(([, text]) => text).join(', ')}; at most ${format(highest)}`);
    return ends.map(([name, text]) => [h('span', { class: lines.length > 1 && `key ${name}` }, text), ' ']);
  });
  return { node, update };
}

/** The way through the values, from gap to gap. */
function outline(values, highest, isArea) {
  const x = (index) => (WIDTH - ((values.length - 1 - index) * WIDTH) / (STEPS - 1)).toFixed(1);
  const y = (value) => (HEIGHT - 2 - (value / (highest || 1)) * (HEIGHT - 4)).toFixed(1);
  const runs = [];
  values.forEach((value, index) => {
    if (value === null) return;
    if (index === 0 || values[index - 1] === null) runs.push([]);
    runs.at(-1).push(index);
  });
  return runs.map((run) => {
    const way = run.map((index) => `${x(index)} ${y(values[index])}`).join('L');
    return isArea ? `M${x(run[0])} ${HEIGHT}L${way}V${HEIGHT}Z` : `M${way}h-.5`;
  }).join('');
}
