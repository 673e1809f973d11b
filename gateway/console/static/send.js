// Try it: a tool is called in any dialect, and what happens is shown until it is over.

import { credentialFields, credentialForShell, credentialHeaders } from './credential.js';
import { DIALECTS } from './dialects.js';
import { h, notice } from './dom.js';
import { argumentsEditor } from './editor.js';
import { Exchanges } from './exchanges.js';
import { Followed } from './follow.js';
import { freshId, UnreadableError } from './inputs.js';
import { REVISIONS } from './mcp.js';
import { OutcomeView } from './outcome.js';
import { curlLine, placeholder } from './wire.js';

let lastDialect = null; // the reader's choice, for the next tool

/** Makes the panel for a tool, as `GET tools/{name}` has it. */
export function tryIt(tool, { session, signal }) {
  const served = Object.keys(DIALECTS).filter((name) => session.dialects.includes(name));
  const dialect = select('Dialect', served.map((name) => [name, DIALECTS[name].title]), served.includes(lastDialect) ? lastDialect : served[0]);
  const revision = select('Revision', REVISIONS.map((each) => [each, each]));
  const options = optionFields(tool);
  const editor = argumentsEditor(tool.too_large ? null : tool.input_schema, () => redraw());
  const curl = curlView();
  const exchanges = new Exchanges();
  const outcome = new OutcomeView();
  const call = h('button', { type: 'submit', class: 'primary' }, 'Call');
  const cancel = h('button', { type: 'button', hidden: true }, 'Cancel');
  let running = null;

  const described = () => ({
    tool: tool.name, mcpName: tool.dialect_names?.mcp, mcpPath: session.mcp_path ?? '/mcp', revision: revision.value,
    input: editor.read(), ...options.read(),
  });
  const redraw = () => {
    revision.field.hidden = dialect.value !== 'mcp';
    try {
      const written = { ...described(), context: options.context(placeholder) };
      curl.show(curlLine(session.public_url, DIALECTS[dialect.value].call(written), credentialForShell()));
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      curl.show('');
    }
  };
  const send = async () => {
    editor.clear();
    let made;
    try {
      made = described();
    } catch (error) {
      if (error instanceof UnreadableError) return editor.fail(error);
      throw error;
    }
    lastDialect = dialect.value;
    exchanges.clear();
    outcome.begin();
    const view = outcome.following((seen, isPoll) => exchanges.update(seen, isPoll));
    running = new Followed(DIALECTS[dialect.value], made, view, { signal, headers: credentialHeaders() });
    call.disabled = true;
    cancel.hidden = false;
    const ended = await running.run();
    running = null;
    if (signal.aborted) return;
    const hadFocus = document.activeElement === cancel;
    call.disabled = false;
    cancel.hidden = true;
    if (hadFocus) call.focus();
    notice(outcome.end(ended));
    editor.show(ended.parameters ?? {});
    if (ended.missing) options.missing(ended.missing);
  };
  cancel.addEventListener('click', () => running?.cancel());
  const form = h('form', { novalidate: true, on: { submit: (event) => {
    event.preventDefault();
    if (running === null) send();
  } } },
  credentialFields(session.credentials.length > 0, redraw), editor.node, options.node,
  h('div', { class: 'line actions' }, dialect.field, revision.field, h('span', { class: 'line' }, call, cancel)));
  form.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && running === null) form.requestSubmit(call);
  });
  form.addEventListener('input', redraw);
  form.addEventListener('change', redraw);
  redraw();
  return h('section', { class: 'try', 'aria-labelledby': 'try-it' },
    h('h2', { id: 'try-it' }, 'Try it'), form, outcome.node, exchanges.node, curl.node);
}

/** A list to choose from: the select with its `field` around it. */
function select(label, choices, value) {
  const id = freshId('select');
  const node = h('select', { id }, ...choices.map(([name, text]) => h('option', { value: name }, text)));
  if (value) node.value = value;
  node.field = h('span', { class: 'labelled' }, h('label', { for: id }, label), node);
  return node;
}

/** What a call has beside its arguments: version, id, patience, and what the tool needs. */
function optionFields(tool) {
  const line = (label, type, hint, extra = null) => {
    const id = freshId('option');
    const input = h('input', { id, type, autocomplete: type === 'password' ? 'new-password' : 'off', 'aria-describedby': `${id}-hint` });
    const field = h('div', { class: 'field' }, h('div', { class: 'field-head' }, h('label', { for: id, class: 'name' }, label)),
      h('div', { class: 'line' }, input, extra), h('p', { class: 'hint', id: `${id}-hint` }, hint));
    return { input, field };
  };
  const needs = tool.requires ?? {};
  const listed = (name) => (Array.isArray(needs[name]) ? needs[name].filter((each) => typeof each?.id === 'string') : []);
  const make = h('button', { type: 'button', class: 'small', on: { click: () => {
    id.input.value = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    id.input.dispatchEvent(new Event('input', { bubbles: true }));
  } } }, 'Make one');
  const version = select('Version', [['', 'newest'], ...(tool.versions ?? []).map((each) => [each, each])]);
  const id = line('Call id', 'text', 'With an id, the call runs once, however often it is sent.', make);
  const wait = line('Wait', 'text', 'Seconds until an answer comes that the tool is still running; empty: as long as its route.');
  wait.input.inputMode = 'decimal';
  const async_ = h('input', { type: 'checkbox', id: freshId('option') });
  const user = line('User', 'text', 'The id of the user for whom the tool is called.');
  const secrets = listed('secrets').map((each) => [each.id, line(`Secret ${each.id}`, 'password', 'Goes with the call; held in the memory of this page.')]);
  const tokens = listed('authorization').map((each) => [each.id, line(`Token of ${each.id}`, 'password', 'Without one the user is asked to consent.')]);
  const needed = [...(needs.user_id ? [user] : []), ...[...secrets, ...tokens].map(([, each]) => each)];
  const given = (fields, member, name) => fields.filter(([, { input }]) => input.value !== '')
    .map(([key, { input }]) => ({ id: key, [member]: name === null ? input.value : name(key) }));
  const context = (name = null) => {
    const [authorization, secret] = [given(tokens, 'token', name), given(secrets, 'value', name)];
    const made = {
      ...(user.input.value ? { user_id: user.input.value } : {}),
      ...(authorization.length > 0 ? { authorization } : {}), ...(secret.length > 0 ? { secrets: secret } : {}),
    };
    return Object.keys(made).length > 0 ? made : null;
  };
  const seconds = () => (/^\d+(\.\d+)?$/.test(wait.input.value.trim()) ? Number(wait.input.value) : null);
  const more = h('details', { class: 'options' }, h('summary', {}, 'Options'),
    version.field, id.field, wait.field,
    h('div', { class: 'field line' }, async_, h('label', { for: async_.id }, 'Do not wait: answer at once, and be asked')),
    needs.user_id ? null : user.field);
  const node = h('div', {},
    needed.length > 0 ? h('div', { class: 'needs' }, h('h3', {}, 'What the tool needs'), ...needed.map((each) => each.field)) : null, more);
  return {
    node,
    context,
    read: () => ({ version: version.value || null, callId: id.input.value.trim(), waitS: seconds(), isAsync: async_.checked, context: context() }),
    /** Goes to the first field that has what is missing. */
    missing(what) {
      const secret = secrets.find(([key, { input }]) => input.value === '' && what.secrets?.some?.((each) => each?.id === key));
      const field = what.user_id ? user : secret?.[1];
      if (!field) return;
      if (more.contains(field.input)) more.open = true;
      field.input.focus();
    },
  };
}

/** The request as a line for a shell, with a button that copies it. */
function curlView() {
  const pre = h('pre', { tabindex: '0', 'aria-label': 'curl command' });
  const copy = h('button', { type: 'button', class: 'small', on: { click: async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      notice('Copied.');
      copy.textContent = 'Copied';
      setTimeout(() => { copy.textContent = 'Copy'; }, 2000);
    } catch { // pages that came by plain HTTP from another machine have no clipboard
      getSelection().selectAllChildren(pre);
      notice('Selected: copy it with the keyboard.');
    }
  } } }, 'Copy');
  return {
    node: h('div', { class: 'curl' }, h('div', { class: 'field-head' }, h('h3', {}, 'The same with curl'), copy), pre),
    show(text) {
      pre.textContent = text || 'The arguments are not JSON yet.';
      copy.disabled = text === '';
    },
  };
}
