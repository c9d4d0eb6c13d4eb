// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Talks to the service's interface.

let key = sessionStorage.getItem('image3d-key') ?? '';
let askKey = async () => '';

// onKeyNeeded sets what asks the user for an API key.
export function onKeyNeeded(ask) { askKey = ask; }

// needsKey reports whether requests carry a key, so that a plain link would be refused.
export function needsKey() { return key !== ''; }

// Problem is an answer that is an error; its message is for people.
export class Problem extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function problemOf(answer) {
  let text = `The service answered ${answer.status} ${answer.statusText}`;
  try {
    const body = await answer.json();
    text = body.detail ?? text;
    for (const e of body.errors ?? []) text += `\n${[e.location, e.message].filter(Boolean).join(': ')}`;
  } catch { /* not from the service itself */ }
  const retry = answer.headers.get('Retry-After');
  if (retry) text += `. Try again in ${retry} s.`;
  return new Problem(answer.status, text.charAt(0).toUpperCase() + text.slice(1), Number(retry) || 0);
}

// request sends a request, and asks for a key if one is needed. It throws a Problem.
export async function request(path, options = {}) {
  for (;;) {
    const headers = new Headers(options.headers);
    if (key) headers.set('Authorization', `Bearer ${key}`);
    let answer;
    try {
      answer = await fetch(path, { ...options, headers, cache: 'no-store' });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Problem(0, 'The service does not answer. Is it running?', 0);
    }
    if (answer.status === 401) {
      key = await askKey();
      if (key) {
        sessionStorage.setItem('image3d-key', key);
        continue;
      }
    }
    if (!answer.ok) throw await problemOf(answer);
    return answer;
  }
}

export const json = async (path, options) => (await request(path, options)).json();
export const bytes = async (path) => (await request(path)).arrayBuffer();

const pause = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener('abort', () => { clearTimeout(timer); done(); }, { once: true });
});

// follow calls each with the events of a job, until the last. When the connection is lost it goes on from where it was.
export async function follow(path, each, lost, signal) {
  let last = '';
  for (let tries = 0; !signal.aborted;) {
    try {
      const answer = await request(path, { signal, headers: last ? { 'Last-Event-ID': last } : {} });
      if (answer.status === 204) return;
      tries = 0;
      lost(false);
      for await (const event of eventsOf(answer.body)) {
        last = String(event.id);
        each(event);
        if (event.final) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status >= 400 && error.status < 500) throw error;
      lost(true);
    }
    tries += 1;
    await pause(Math.min(500 * 2 ** tries, 10000), signal);
  }
}

// eventsOf reads server-sent events; their data is JSON.
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n');
      text = text.slice(end + 2);
      const data = lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\n');
      if (data) yield JSON.parse(data);
    }
  }
}
