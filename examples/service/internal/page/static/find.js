// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Finds objects in the photograph with the service's segmenter: by clicks and by words. What it finds goes into the mask.

import { Problem, json, request } from './client.js';

const $ = (id) => document.getElementById(id);

export class Finder {
  // editor is the mask's; complain shows an error, or takes it away.
  constructor(editor, complain) {
    Object.assign(this, { editor, complain });
    this.photo = null;
    this.sessions = 0;
    this.session = 0; // of the list
    this.turn = Promise.resolve(); // clicks are answered one after the other
    this.pending = [];
    $('words').addEventListener('submit', (event) => { event.preventDefault(); this.#words($('text').value.trim()); });
    $('instances').addEventListener('change', (event) => this.#pick(Number(event.target.value)));
  }

  // open takes another photograph, a file.
  open(photo) {
    this.photo = photo;
    this.encoding = null;
    this.pending = [];
    this.#list([]);
    this.say('');
    this.mark();
  }

  say(text) { $('find-note').textContent = text; }

  // encode sends the photograph, once, and returns the path of its encoding.
  encode() {
    const { photo } = this;
    if (!this.encoding) {
      const body = new FormData();
      body.append('image', photo, photo.name || 'photograph');
      this.say('The segmenter looks at the photograph …');
      const sent = json('/v1/encodings', { method: 'POST', body }).then(({ id }) => `/v1/encodings/${id}`);
      this.encoding = sent;
      sent.then(() => { if (this.encoding === sent) this.say(''); }, () => {
        if (this.encoding === sent) {
          this.encoding = null;
          this.say('');
        }
      });
    }
    return this.encoding;
  }

  // ask sends a prompt. If the service has dropped the encoding it gets the photograph again.
  async ask(kind, prompt) {
    for (let tries = 0; ; tries++) {
      const path = await this.encode();
      try {
        return await request(`${path}/${kind}`, {
          method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(prompt),
        });
      } catch (error) {
        if (!(error instanceof Problem && error.status === 404) || tries) throw error;
        this.encoding = null;
        delete prompt.mask; // it was of that encoding
      }
    }
  }

  // click finds the object under a click, or takes away what is beside it.
  click(at, beside) {
    const { photo } = this;
    this.complain('');
    const point = { ...at, beside };
    this.pending.push(point);
    this.mark();
    this.turn = this.turn.then(async () => {
      try {
        if (photo === this.photo && this.pending.includes(point)) await this.#clicked(photo, point);
      } catch (error) {
        if (photo === this.photo) this.complain(error.message);
      } finally {
        this.pending = this.pending.filter((p) => p !== point);
        this.mark();
      }
    });
    return this.turn;
  }

  // undo takes back the latest click that has no answer yet. It returns whether there was one.
  undo() {
    const waits = Boolean(this.pending.pop());
    if (waits) this.mark();
    return waits;
  }

  async #clicked(photo, point) {
    const before = this.editor.last?.points && this.editor.last.session ? this.editor.last : null;
    const points = [...(before?.points ?? []), point];
    if (!points.some((p) => !p.beside)) throw new Error('Click on the object first.');
    const side = (beside) => points.filter((p) => p.beside === beside).map(({ x, y }) => ({ x, y }));
    const prompt = { positive: side(false), negative: side(true) };
    if (before?.mask) prompt.mask = before.mask;
    const answer = await this.ask('clicks', prompt);
    const mask = answer.headers.get('Mask-Id');
    const bitmap = await createImageBitmap(await answer.blob());
    if (photo === this.photo && this.pending.includes(point)) {
      this.editor.find(bitmap, { session: before?.session ?? ++this.sessions, points, mask });
      const score = Number(answer.headers.get('Score'));
      this.say(`Score ${score.toFixed(2)}. Click again to correct it, or paint.`);
    }
    bitmap.close();
  }

  // mark shows what the mask is of: clicks, with those that wait for an answer, or one of the list.
  mark() {
    const points = [...(this.editor.last?.session ? this.editor.last.points ?? [] : []), ...this.pending];
    const { width, height } = this.editor;
    $('undo').disabled = !this.editor.done.length && !this.pending.length;
    $('marks').replaceChildren(...points.map((p) => {
      const mark = document.createElement('i');
      mark.className = p.beside ? 'mark beside' : 'mark';
      mark.classList.toggle('waiting', this.pending.includes(p));
      mark.style.left = `${(100 * p.x) / width}%`;
      mark.style.top = `${(100 * p.y) / height}%`;
      return mark;
    }));
    const picked = this.editor.last?.session === this.session ? this.editor.last.pick : -1;
    for (const radio of $('instances').querySelectorAll('input')) radio.checked = Number(radio.value) === picked;
  }

  async #words(text) {
    const { photo } = this;
    if (!photo || !text) return;
    this.complain('');
    this.#list([]);
    $('find').disabled = true;
    try {
      await this.encode();
      this.say(`The segmenter looks for “${text}” …`);
      const { found, instances } = await (await this.ask('words', { text })).json();
      const bitmaps = await Promise.all(instances.map(({ mask }) => picture(mask)));
      if (photo !== this.photo) return;
      this.say(found > instances.length ? `${found} found; these are the best ${instances.length}.` : `${found} found.`);
      this.#list(instances.map(({ box, score }, i) => ({ box, score, bitmap: bitmaps[i] })));
    } catch (error) {
      if (photo !== this.photo) return;
      this.say('');
      this.complain(error.message);
    } finally {
      $('find').disabled = false;
    }
  }

  // list shows what words found, to pick from.
  #list(found) {
    for (const { bitmap } of this.found ?? []) bitmap.close();
    this.found = found;
    this.session = ++this.sessions;
    $('instances').hidden = !found.length;
    $('instances').querySelector('div').replaceChildren(...found.map((instance, i) => {
      const label = document.createElement('label');
      const radio = Object.assign(document.createElement('input'), { type: 'radio', name: 'instance', value: i });
      const text = document.createElement('span');
      text.append(this.#cut(instance), `${i + 1}: ${instance.score.toFixed(2)}`);
      label.append(radio, text);
      return label;
    }));
  }

  // cut returns a small picture of an instance, the rest of the photograph dimmed.
  #cut({ box, bitmap }) {
    const side = 56;
    const canvas = Object.assign(document.createElement('canvas'), { width: side, height: side });
    const c = canvas.getContext('2d');
    const { width, height } = this.editor;
    const [x0, y0, x1, y1] = [Math.max(0, box[0]), Math.max(0, box[1]), Math.min(width, box[2]), Math.min(height, box[3])];
    const scale = side / Math.max(1, x1 - x0, y1 - y0);
    const draw = (source) => c.drawImage(source, side / 2 - ((x0 + x1) / 2) * scale, side / 2 - ((y0 + y1) / 2) * scale, width * scale, height * scale);
    c.globalCompositeOperation = 'multiply';
    draw(bitmap);
    draw(this.editor.picture);
    c.globalCompositeOperation = 'source-over';
    c.globalAlpha = 0.35;
    draw(this.editor.picture);
    return canvas;
  }

  #pick(i) {
    const { bitmap } = this.found[i];
    this.editor.find(bitmap, { session: this.session, pick: i });
  }
}

// picture decodes a PNG in base64.
async function picture(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return createImageBitmap(new Blob([bytes], { type: 'image/png' }));
}
