// The credential that calls are made with. It is held in this page's memory alone, and is gone when the page is.

import { h } from './dom.js';

const HEADERS = [['Authorization', 'Bearer token or API key'], ['OXP-API-Key', 'API key in OXP-API-Key'], ['OTC-API-Key', 'API key in OTC-API-Key']];

let header = HEADERS[0][0];
let value = '';

/** Takes a credential that somebody has typed, or agreed to. */
export function setCredential(text, name = HEADERS[0][0]) {
  value = text.trim();
  header = name;
}

/** Whether there is one. */
export const hasCredential = () => value !== '';

/** The headers that carry it, as `[name, value]`. */
export function credentialHeaders() {
  if (value === '') return [];
  return [[header, header === 'Authorization' ? `Bearer ${value}` : value]];
}

/** The same for a shell, which has it in a variable. */
export const credentialForShell = () => credentialHeaders().map(([name, text]) => [name, text.replace(value, '$TOOLGATE_TOKEN')]);

/** A header's value as it may be shown. */
export function masked(name, text) {
  const isSecret = HEADERS.some(([each]) => each.toLowerCase() === name.toLowerCase());
  return isSecret ? text.replace(/\S+$/, '••••••••') : text;
}

/** The fields to type it in. `isNeeded`: the gateway asks for one. */
export function credentialFields(isNeeded, onChange) {
  const input = h('input', {
    type: 'password', id: 'credential', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'credential-note',
  });
  input.value = value;
  const select = h('select', { 'aria-label': 'How the credential is sent' }, ...HEADERS.map(([name, text]) => h('option', { value: name }, text)));
  select.value = header;
  const clear = h('button', { type: 'button', class: 'small' }, 'Clear');
  const note = h('p', { class: 'hint', id: 'credential-note' });
  const show = () => {
    const missing = isNeeded ? 'This gateway asks its callers for one.' : 'This gateway needs none.';
    note.textContent = value === '' ? missing : 'Held in the memory of this page until you clear it or leave.';
    clear.disabled = value === '';
  };
  const take = () => {
    setCredential(input.value, select.value);
    show();
    onChange();
  };
  input.addEventListener('input', take);
  select.addEventListener('change', take);
  clear.addEventListener('click', () => {
    input.value = '';
    take();
    input.focus();
  });
  show();
  return h('div', { class: 'field' },
    h('div', { class: 'field-head' }, h('label', { for: 'credential', class: 'name' }, 'Credential')),
    h('div', { class: 'line' }, input, select, clear), note);
}
