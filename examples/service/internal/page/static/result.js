// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Shows the result of a job: the view, the files and the facts.

import { bytes, needsKey, request } from './client.js';

const $ = (id) => document.getElementById(id);

const about = {
  'result.ply': 'Gaussian splats', 'light.ply': 'lighter Gaussian splats', 'result.glb': 'mesh for most programs',
  'result.obj': 'mesh with vertex colours', 'result.stl': 'mesh for printing', 'result.json': 'pose, camera and sizes',
  'posed.ply': 'splats where the camera sees them', 'posed.glb': 'mesh where the camera sees it', 'points.ply': 'point map',
  'photo.jpg': 'the photograph, upright',
};

const layers = { splats: ['result.ply', 'light.ply'], mesh: ['result.glb'], points: ['points.ply'] };

export class ResultView {
  constructor(onError) {
    this.onError = onError;
    for (const name of Object.keys(layers)) {
      $(`show-${name}`).addEventListener('change', (e) => this.viewer?.setLayer(name, e.target.checked));
    }
    for (const radio of document.querySelectorAll('input[name="view"]')) {
      radio.addEventListener('change', () => this.#setView(radio.value));
    }
    $('reset').addEventListener('click', () => this.#reset());
    $('scene').addEventListener('keydown', (e) => this.#key(e));
  }

  // show fills the page. visible makes its part of the page visible, which the drawing surface needs.
  async show(job, visible) {
    const has = (name) => job.summary.files.some((file) => file.name === name);
    this.#list(job);
    const document3d = JSON.parse(new TextDecoder().decode(await bytes(job.links['result.json'])));
    const found = {};
    const names = {};
    for (const [layer, files] of Object.entries(layers)) {
      names[layer] = files.find(has);
      if (names[layer]) found[layer] = await bytes(job.links[names[layer]]);
    }
    await this.#backdrop(job);
    visible();
    const first = names.splats ? 'splats' : 'mesh';
    for (const layer of Object.keys(layers)) {
      $(`show-${layer}`).checked = layer === first;
      $(`show-${layer}`).disabled = !names[layer];
    }
    $('photo-view').querySelector('input').disabled = !document3d.camera;
    $('view-note').textContent = document3d.camera ? '' : 'The view over the photograph is not to be had: no camera could be found for this picture.';
    try {
      const { Viewer } = await import('./viewer.js');
      this.viewer ??= new Viewer($('view'), this.onError);
    } catch (error) {
      $('scene').hidden = true;
      $('view-note').textContent = `The object cannot be shown here, as this browser has no WebGL 2. The files are fine. (${error.message})`;
      return;
    }
    await this.viewer.show({ ...found, document: document3d });
    for (const layer of Object.keys(layers)) this.viewer.setLayer(layer, layer === first);
    document.querySelector('input[name="view"][value="orbit"]').checked = true;
    this.camera = document3d.camera;
    this.#setView('orbit');
    $('scene').dataset.ready = job.id;
  }

  close() {
    this.viewer?.clear();
    this.viewer?.draw();
  }

  async #backdrop(job) {
    if (this.photo) URL.revokeObjectURL(this.photo);
    this.photo = URL.createObjectURL(new Blob([await bytes(job.links['photo.jpg'])], { type: 'image/jpeg' }));
    $('backdrop').src = this.photo;
  }

  #setView(view) {
    const photo = view === 'photo';
    $('backdrop').hidden = !photo;
    $('scene').style.aspectRatio = photo ? `${this.camera.width} / ${this.camera.height}` : '';
    this.viewer?.setView(view);
  }

  #reset() {
    document.querySelector('input[name="view"][value="orbit"]').checked = true;
    this.#setView('orbit');
    this.viewer?.reset();
  }

  #key(event) {
    if (!this.viewer || event.ctrlKey || event.metaKey || event.altKey) return;
    const turn = Math.PI / 24;
    switch (event.key) {
      case 'ArrowLeft': this.viewer.rotate(-turn, 0); break;
      case 'ArrowRight': this.viewer.rotate(turn, 0); break;
      case 'ArrowUp': this.viewer.rotate(0, turn); break;
      case 'ArrowDown': this.viewer.rotate(0, -turn); break;
      case '+': case '=': this.viewer.zoom(0.9); break;
      case '-': this.viewer.zoom(1.1); break;
      case '0': this.#reset(); break;
      default: return;
    }
    event.preventDefault();
  }

  // list shows files, warnings and facts.
  #list(job) {
    const item = (text) => Object.assign(document.createElement('li'), { textContent: text });
    $('warnings').replaceChildren(...(job.summary.warnings ?? []).map((text) => item(sentence(text))));
    $('files').replaceChildren(...job.summary.files.map((file) => this.#file(job, file)));
    const seconds = (new Date(job.finished) - new Date(job.started)) / 1000;
    const count = (n, one, many) => (n ? [`${n.toLocaleString('en')} ${n === 1 ? one : many}`] : []);
    $('facts').textContent = [
      ...count(job.summary.voxels, 'voxel', 'voxels'), ...count(job.summary.gaussians, 'splat', 'splats'),
      ...count(job.summary.faces, 'triangle', 'triangles'), `seed ${job.options.seed}`, `${seconds.toFixed(1)} s`,
    ].join(' · ');
  }

  #file(job, file) {
    const row = document.createElement('li');
    const link = Object.assign(document.createElement('a'), { href: job.links[file.name], download: file.name, textContent: file.name });
    link.addEventListener('click', async (event) => {
      if (!needsKey()) return;
      event.preventDefault(); // a plain link carries no key
      try {
        const url = URL.createObjectURL(await (await request(link.href)).blob());
        Object.assign(document.createElement('a'), { href: url, download: file.name }).click();
        setTimeout(() => URL.revokeObjectURL(url), 60000);
      } catch (error) {
        this.onError(error.message);
      }
    });
    const text = (name, value) => Object.assign(document.createElement('span'), { className: name, textContent: value });
    const size = file.bytes < 1e6 ? `${Math.max(1, Math.round(file.bytes / 1000))} kB` : `${(file.bytes / 1e6).toFixed(1)} MB`;
    row.append(link, text('about', about[file.name] ?? ''), text('bytes', size));
    return row;
  }
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
