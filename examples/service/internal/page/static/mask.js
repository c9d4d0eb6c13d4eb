// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// The mask editor: a photograph with a mask painted over it. The mask has the photograph's full size. What was done is
// kept as a list, and undo paints it again without the last entry.
//
// What the segmenter finds is an entry too: the answers of one session, such as clicks on one object, replace each other,
// and are added to what the mask was before the session.

const PAINT = 'rgb(124, 58, 237)';

export class MaskEditor {
  // parts are elements: stage, picture and overlay (canvases) and cursor; changed is called after each change, and
  // clicked, with a place and whether it is beside the object, for each click of the tool for that.
  constructor({ stage, picture, overlay, cursor }, changed, clicked) {
    Object.assign(this, { stage, picture, overlay, cursor, changed, clicked });
    this.done = [];
    this.undone = [];
    this.tool = 'brush'; // or eraser, or click
    this.size = 28; // thousandths of the larger side, as a radius
    this.at = { x: 0, y: 0 };
    stage.addEventListener('pointerdown', (e) => this.#down(e));
    stage.addEventListener('pointermove', (e) => this.#move(e));
    for (const name of ['pointerup', 'pointercancel']) stage.addEventListener(name, () => this.#up());
    stage.addEventListener('keydown', (e) => this.#keyDown(e));
    stage.addEventListener('keyup', (e) => { if (e.key === ' ') this.#up(); });
    stage.addEventListener('blur', () => this.#up());
    new ResizeObserver(() => this.#showCursor()).observe(stage);
  }

  get width() { return this.picture.width; }
  get height() { return this.picture.height; }
  get last() { return this.done.at(-1); }
  get radius() { return Math.max(0.5, (this.size / 1000) * Math.max(this.width, this.height)); }

  // open shows a photograph, an ImageBitmap. Its own transparency, if it has any, is the first mask.
  open(bitmap) {
    for (const canvas of [this.picture, this.overlay]) {
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
    }
    this.stage.style.width = `min(100%, ${(62 * bitmap.width) / bitmap.height}vh)`;
    this.picture.getContext('2d').drawImage(bitmap, 0, 0);
    this.paint = this.overlay.getContext('2d', { willReadFrequently: true });
    this.done = [];
    this.undone = [];
    this.stroke = null;
    this.at = { x: bitmap.width / 2, y: bitmap.height / 2 };
    this.#replay();
    this.#showCursor();
    const pixels = this.picture.getContext('2d').getImageData(0, 0, this.width, this.height).data;
    let clear = false;
    for (let i = 3; i < pixels.length && !clear; i += 4) clear = pixels[i] < 255;
    if (clear) this.#perform({ kind: 'bitmap', canvas: tinted(bitmap, this.width, this.height, (p, i) => p[i + 3]) });
  }

  // load replaces the mask by a picture. It returns a complaint if the sizes differ.
  load(bitmap) {
    if (bitmap.width !== this.width || bitmap.height !== this.height) {
      return `The mask is ${bitmap.width} × ${bitmap.height} pixels and the photograph ${this.width} × ${this.height}. They must be the same size.`;
    }
    const probe = document.createElement('canvas');
    probe.width = this.width;
    probe.height = this.height;
    const context = probe.getContext('2d');
    context.drawImage(bitmap, 0, 0);
    const pixels = context.getImageData(0, 0, this.width, this.height).data;
    let varies = false; // alpha tells only where it varies
    for (let i = 7; i < pixels.length && !varies; i += 4) varies = pixels[i] !== pixels[3];
    const value = varies ? (p, i) => p[i + 3] : (p, i) => Math.max(p[i], p[i + 1], p[i + 2]);
    this.#perform({ kind: 'bitmap', canvas: tinted(bitmap, this.width, this.height, value) });
    return '';
  }

  // find adds what the segmenter found, an ImageBitmap that is bright where the object is. The entry has a session, and
  // whatever else the caller wants to find in last again.
  find(bitmap, entry) {
    this.#perform({ ...entry, kind: 'found', bits: packed(bitmap, this.width, this.height) });
  }

  clear() { this.#perform({ kind: 'clear' }); }
  invert() { this.#perform({ kind: 'invert' }); }

  undo() {
    if (!this.done.length) return;
    this.undone.push(this.done.pop());
    this.#replay();
  }

  redo() {
    if (!this.undone.length) return;
    const entry = this.undone.pop();
    this.done.push(entry);
    this.#show(entry);
  }

  // coverage is the part of the photograph that the mask covers, counted on a small copy.
  coverage() {
    const small = document.createElement('canvas');
    small.width = Math.min(this.width, 256);
    small.height = Math.min(this.height, 256);
    const context = small.getContext('2d');
    context.drawImage(this.overlay, 0, 0, small.width, small.height);
    const pixels = context.getImageData(0, 0, small.width, small.height).data;
    let sum = 0;
    for (let i = 3; i < pixels.length; i += 4) sum += pixels[i];
    return sum / 255 / (small.width * small.height);
  }

  // file returns the mask as a PNG, white on black.
  async file() {
    const canvas = document.createElement('canvas');
    canvas.width = this.width;
    canvas.height = this.height;
    const context = canvas.getContext('2d');
    context.drawImage(this.overlay, 0, 0);
    context.globalCompositeOperation = 'source-in';
    context.fillStyle = '#fff';
    context.fillRect(0, 0, this.width, this.height);
    context.globalCompositeOperation = 'destination-over';
    context.fillStyle = '#000';
    context.fillRect(0, 0, this.width, this.height);
    return new Promise((done, fail) => {
      canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error('The browser could not write the mask.'))), 'image/png');
    });
  }

  #perform(entry) {
    this.done.push(entry);
    this.undone = [];
    this.#show(entry);
  }

  // show paints the latest entry, over the others.
  #show(entry) {
    if (entry.session && entry.session === this.done.at(-2)?.session) {
      this.#replay(); // without the one that it replaces
      return;
    }
    this.#apply(entry);
    this.changed();
  }

  #replay() {
    this.paint.clearRect(0, 0, this.width, this.height);
    this.done.forEach((entry, i) => {
      if (!entry.session || entry.session !== this.done[i + 1]?.session) this.#apply(entry);
    });
    this.changed();
  }

  #apply(entry) {
    const c = this.paint;
    c.save();
    if (entry.kind === 'stroke') {
      entry.points.forEach((_, i) => this.#segment(entry, i));
    } else if (entry.kind === 'found') {
      c.drawImage(unpacked(entry.bits, this.width, this.height), 0, 0);
    } else {
      if (entry.kind === 'invert') {
        c.globalCompositeOperation = 'xor';
        c.fillStyle = PAINT;
        c.fillRect(0, 0, this.width, this.height);
      } else {
        c.clearRect(0, 0, this.width, this.height);
        if (entry.canvas) c.drawImage(entry.canvas, 0, 0);
      }
    }
    c.restore();
  }

  // segment paints the part of a stroke that ends at point i.
  #segment(stroke, i) {
    const c = this.paint;
    const to = stroke.points[i];
    const from = stroke.points[i - 1] ?? to;
    c.save();
    c.globalCompositeOperation = stroke.tool === 'eraser' ? 'destination-out' : 'source-over';
    c.strokeStyle = PAINT;
    c.lineCap = 'round';
    c.lineWidth = 2 * stroke.radius;
    c.beginPath();
    c.moveTo(from.x, from.y);
    c.lineTo(to.x + (from === to ? 0.01 : 0), to.y);
    c.stroke();
    c.restore();
  }

  #place(event) {
    const box = this.overlay.getBoundingClientRect();
    return { x: ((event.clientX - box.left) / box.width) * this.width, y: ((event.clientY - box.top) / box.height) * this.height };
  }

  #begin(point) {
    this.stroke = { kind: 'stroke', tool: this.tool, radius: this.radius, points: [point] };
    this.#segment(this.stroke, 0);
  }

  #extend(point) {
    this.stroke.points.push(point);
    this.#segment(this.stroke, this.stroke.points.length - 1);
  }

  #down(event) {
    if (event.button !== 0 || !this.paint) return;
    event.preventDefault();
    this.stage.focus({ preventScroll: true });
    this.stage.setPointerCapture(event.pointerId);
    this.at = this.#place(event);
    if (this.tool === 'click') this.#click(event.shiftKey || event.altKey);
    else this.#begin(this.at);
    this.#showCursor();
  }

  #move(event) {
    if (!this.paint) return;
    const all = event.getCoalescedEvents?.() ?? [];
    for (const e of all.length ? all : [event]) {
      this.at = this.#place(e);
      if (this.stroke) this.#extend(this.at);
    }
    this.#showCursor();
  }

  #up() {
    if (!this.stroke) return;
    this.done.push(this.stroke);
    this.undone = [];
    this.stroke = null;
    this.changed();
  }

  // click tells of a click, if it is on the photograph.
  #click(beside) {
    const { x, y } = this.at;
    if (x >= 0 && y >= 0 && x <= this.width && y <= this.height) this.clicked({ x, y }, beside);
  }

  #keyDown(event) {
    const step = Math.max(1, this.radius / (event.shiftKey ? 8 : 2));
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[event.key]) {
      const [x, y] = moves[event.key];
      this.at = { x: Math.min(this.width, Math.max(0, this.at.x + x)), y: Math.min(this.height, Math.max(0, this.at.y + y)) };
      if (this.stroke) this.#extend(this.at);
      this.#showCursor();
    } else if (event.key === ' ' && this.tool === 'click') {
      if (!event.repeat) this.#click(event.shiftKey);
    } else if (event.key === ' ') {
      if (!this.stroke) this.#begin(this.at);
    } else {
      return;
    }
    event.preventDefault();
  }

  #showCursor() {
    const box = this.overlay.getBoundingClientRect();
    if (!box.width || !this.width) return;
    const scale = box.width / this.width;
    this.cursor.style.left = `${this.at.x * scale}px`;
    this.cursor.style.top = `${this.at.y * scale}px`;
    this.cursor.style.width = this.cursor.style.height = this.tool === 'click' ? '' : `${2 * this.radius * scale}px`;
    this.cursor.classList.toggle('aim', this.tool === 'click');
  }

  // choose takes another tool.
  choose(tool) {
    this.#up();
    this.tool = tool;
    this.#showCursor();
  }

  // resized shows a new brush size.
  resized(size) {
    this.size = Math.min(100, Math.max(1, size));
    this.#showCursor();
  }
}

// tinted returns a canvas in the colour of the mask whose alpha is value(pixels, index of a pixel).
function tinted(bitmap, width, height, value) {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d');
  context.drawImage(bitmap, 0, 0);
  const image = context.getImageData(0, 0, width, height);
  const p = image.data;
  for (let i = 0; i < p.length; i += 4) {
    const alpha = value(p, i);
    [p[i], p[i + 1], p[i + 2], p[i + 3]] = [124, 58, 237, alpha];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// packed returns a picture's bright pixels, a bit each: many answers of the segmenter may be kept.
function packed(bitmap, width, height) {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d');
  context.drawImage(bitmap, 0, 0, width, height);
  const p = context.getImageData(0, 0, width, height).data;
  const bits = new Uint8Array(Math.ceil((width * height) / 8));
  for (let i = 0; i < width * height; i++) if (p[4 * i] > 127) bits[i >> 3] |= 1 << (i & 7);
  return bits;
}

// unpacked returns a canvas in the colour of the mask of packed pixels.
function unpacked(bits, width, height) {
  const canvas = new OffscreenCanvas(width, height);
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const little = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
  const colour = little ? 0xffed3a7c : 0x7c3aedff;
  for (let i = 0; i < pixels.length; i++) if (bits[i >> 3] & (1 << (i & 7))) pixels[i] = colour;
  canvas.getContext('2d').putImageData(image, 0, 0);
  return canvas;
}
