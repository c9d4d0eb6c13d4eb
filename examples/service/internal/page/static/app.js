// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// The page: a photograph and a mask become a job, and the job's result a view.

import { Problem, follow, json, onKeyNeeded, request } from './client.js';
import { Finder } from './find.js';
import { MaskEditor } from './mask.js';
import { ResultView } from './result.js';

const $ = (id) => document.getElementById(id);
const state = { photo: null, limits: {}, job: null, following: null, busy: false };

const editor = new MaskEditor({ stage: $('stage'), picture: $('picture'), overlay: $('overlay'), cursor: $('cursor') }, maskChanged,
  (at, beside) => finder.click(at, beside !== $('beside').checked));
const finder = new Finder(editor, (text) => complain('edit-error', text));
const view = new ResultView((text) => complain('job-error', text));

function complain(id, text) {
  $(id).textContent = text;
  $(id).hidden = !text;
}

// --- the photograph and its mask

async function decode(file) {
  try {
    return await createImageBitmap(file); // upright, as its EXIF data says
  } catch {
    return null;
  }
}

async function openPhoto(file) {
  complain('edit-error', '');
  if (state.limits.max_upload_bytes && file.size > state.limits.max_upload_bytes) {
    complain('edit-error', `The file has ${size(file.size)}; the service takes ${size(state.limits.max_upload_bytes)}.`);
    return;
  }
  const bitmap = await decode(file);
  if (!bitmap) {
    complain('edit-error', `This browser cannot show ${file.name}. PNG, JPEG, WebP, GIF and BMP work.`);
    return;
  }
  if (state.limits.max_pixels && bitmap.width * bitmap.height > state.limits.max_pixels) {
    complain('edit-error', `The photograph has ${bitmap.width} × ${bitmap.height} pixels; the service takes ${(state.limits.max_pixels / 1e6).toFixed(0)} million.`);
    return;
  }
  state.photo = file;
  $('drop').hidden = true;
  $('editor').hidden = false;
  editor.open(bitmap);
  bitmap.close();
  finder.open(file);
  if (editor.tool === 'click') finder.encode().catch((error) => complain('edit-error', error.message));
}

async function openMask(file) {
  const bitmap = await decode(file);
  complain('edit-error', bitmap ? editor.load(bitmap) : `This browser cannot show ${file.name}.`);
  bitmap?.close();
}

function maskChanged() {
  $('redo').disabled = !editor.undone.length;
  const part = state.photo ? editor.coverage() : 0;
  let text = part > 0 ? `The mask covers ${(100 * part).toFixed(1)} % of the photograph.` : '';
  if (part > 0.9) text += ' That is nearly all of it: is it inverted?';
  $('coverage').textContent = text;
  if (state.photo) finder.mark();
  allowStart(part > 0);
}

function allowStart(masked) {
  $('start').disabled = !state.photo || !masked || state.busy;
  $('start-help').hidden = Boolean(state.photo && masked);
  $('start-help').textContent = state.photo ? 'Paint over the object, or load a mask.' : 'A photograph and a mask are needed first.';
}

$('photo').addEventListener('change', (e) => { if (e.target.files[0]) openPhoto(e.target.files[0]); e.target.value = ''; });
$('mask').addEventListener('change', (e) => { if (e.target.files[0]) openMask(e.target.files[0]); e.target.value = ''; });
for (const radio of document.querySelectorAll('input[name="tool"]')) radio.addEventListener('change', () => choose(radio.value));

// choose takes a tool. The one for clicks needs the photograph at the segmenter, which takes a while.
function choose(tool) {
  document.querySelector(`input[value="${tool}"]`).checked = true;
  editor.choose(tool);
  const clicks = tool === 'click';
  $('stage').setAttribute('aria-describedby', clicks ? 'click-help' : 'paint-help');
  $('paint-help').hidden = clicks;
  $('click-help').hidden = $('beside-part').hidden = !clicks;
  $('size-part').hidden = clicks;
  if (clicks && state.photo) finder.encode().catch((error) => complain('edit-error', error.message));
}

// offer shows what the service's segmenter can do.
function offer({ clicks, words } = {}) {
  $('click-tool').hidden = !clicks;
  $('words').hidden = !words;
}

$('size').addEventListener('input', (e) => editor.resized(Number(e.target.value)));
for (const name of ['redo', 'invert', 'clear']) $(name).addEventListener('click', () => editor[name]());
$('undo').addEventListener('click', undo);

function undo() { if (!finder.undo()) editor.undo(); }

for (const name of ['dragover', 'dragleave', 'drop']) {
  $('edit').addEventListener(name, (event) => {
    event.preventDefault();
    $('drop').classList.toggle('over', name === 'dragover');
    if (name === 'drop' && event.dataTransfer.files[0]) openPhoto(event.dataTransfer.files[0]);
  });
}
document.addEventListener('paste', (event) => {
  const file = [...event.clipboardData.files].find((f) => f.type.startsWith('image/'));
  if (file) openPhoto(file);
});

document.addEventListener('keydown', (event) => {
  if (!state.photo || event.target.matches('input:not([type="range"]):not([type="radio"]):not([type="checkbox"]), textarea') || $('key-dialog').open) return;
  const key = event.key.toLowerCase();
  if ((event.ctrlKey || event.metaKey) && key === 'z') {
    if (event.shiftKey) editor.redo(); else undo();
  } else if ((event.ctrlKey || event.metaKey) && key === 'y') {
    editor.redo();
  } else if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (key === 'b' || key === 'e') {
    choose(key === 'b' ? 'brush' : 'eraser');
  } else if (key === 'c' && !$('click-tool').hidden) {
    choose('click');
  } else if (key === '[' || key === ']') {
    editor.resized(editor.size * (key === '[' ? 0.85 : 1.18));
    $('size').value = editor.size;
  } else {
    return;
  }
  event.preventDefault();
});

// --- the job

const stages = {
  depth: 'Estimating depth', input: 'Preparing the picture', condition: 'Looking at the object', structure: 'Finding shape and pose',
  voxels: 'Carving the shape', latent: 'Adding detail', gaussians: 'Making splats', gaussians4: 'Making lighter splats', mesh: 'Making the mesh',
};

async function submission() {
  const form = new FormData();
  form.append('image', state.photo, state.photo.name || 'photograph');
  form.append('mask', await editor.file(), 'mask.png');
  if ($('pointmap').files[0]) form.append('pointmap', $('pointmap').files[0]);
  form.append('seed', $('seed').value);
  if ($('steps').value) form.append('steps', $('steps').value);
  if ($('latent-steps').value) form.append('latent_steps', $('latent-steps').value);
  if ($('no-depth').checked) form.append('no_depth', 'true');
  const outputs = ['gaussians', 'mesh', 'gaussians4'].filter((name) => $(`want-${name}`).checked);
  if (!outputs.length) throw new Error('Choose something to make: splats or a mesh.');
  form.append('outputs', outputs.join(','));
  return form;
}

$('options').addEventListener('submit', async (event) => {
  event.preventDefault();
  complain('edit-error', '');
  setBusy(true);
  try {
    const key = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
    const body = await submission();
    showProgress('Sending', 0, '');
    const job = await json('/v1/jobs', { method: 'POST', body, headers: { 'Idempotency-Key': key } });
    location.hash = `job=${job.id}`;
    watch(job);
  } catch (error) {
    $('progress').hidden = true;
    $('empty').hidden = false;
    complain('edit-error', error.message);
    setBusy(false);
  }
});

function setBusy(busy) {
  state.busy = busy;
  allowStart(state.photo && editor.coverage() > 0);
}

function showProgress(name, percent, detail) {
  $('empty').hidden = true;
  $('result').hidden = true;
  complain('job-error', '');
  $('progress').hidden = false;
  if ($('stage-name').textContent !== name) $('stage-name').textContent = name;
  $('bar').value = percent;
  $('detail').textContent = detail;
}

// watch follows a job to its end.
async function watch(job) {
  state.following?.abort();
  const following = new AbortController();
  Object.assign(state, { job, following });
  $('cancel').disabled = false;
  $('cancel').textContent = 'Cancel';
  setBusy(true);
  if (innerWidth < 820) $('outcome').scrollIntoView({ block: 'start' });
  try {
    await follow(job.links.events, (event) => showEvent(job, event), (lost) => { if (lost) $('detail').textContent = 'The connection was lost; trying again.'; }, following.signal);
    if (following.signal.aborted) return;
    await ended(await json(job.links.self));
  } catch (error) {
    $('progress').hidden = true;
    complain('job-error', error.message);
  } finally {
    if (state.following === following) setBusy(false);
  }
}

async function showEvent(job, event) {
  if (event.state === 'queued') {
    showProgress('Waiting', 0, '');
    const now = await json(job.links.self).catch(() => null);
    if (now?.state === 'queued' && now.position) $('detail').textContent = now.position === 1 ? 'One job comes first.' : `${now.position} jobs come first.`;
    return;
  }
  if (event.state !== 'running') return;
  const steps = event.of > 1 ? `Step ${event.step ?? 0} of ${event.of}. ` : '';
  showProgress(stages[event.stage] ?? 'Starting', event.percent, `${steps}${Math.round(event.percent)} %`);
}

async function ended(job) {
  $('progress').hidden = true;
  state.job = job;
  if (job.state === 'done') {
    showProgress('Loading the result', 100, '');
    try {
      await view.show(job, () => { $('progress').hidden = true; $('result').hidden = false; });
    } finally {
      $('progress').hidden = true;
    }
    return;
  }
  $('empty').hidden = job.state === 'failed';
  if (job.state === 'failed') complain('job-error', `It did not work: ${job.failure.message}.`);
  if (job.state === 'cancelled') $('empty').firstElementChild.textContent = 'Cancelled. The object of the next job appears here.';
}

$('cancel').addEventListener('click', async () => {
  if (!state.job) return;
  $('cancel').disabled = true;
  $('cancel').textContent = 'Stopping after this step';
  try {
    await request(state.job.links.self, { method: 'DELETE' });
  } catch (error) {
    complain('job-error', error.message);
  }
});

$('remove').addEventListener('click', async () => {
  try {
    await request(state.job.links.self, { method: 'DELETE' });
    view.close();
    $('result').hidden = true;
    $('empty').hidden = false;
    history.replaceState(null, '', location.pathname);
  } catch (error) {
    complain('job-error', error.message);
  }
});

// --- start

onKeyNeeded(() => new Promise((done) => {
  const dialog = $('key-dialog');
  dialog.addEventListener('close', () => { done($('key').value.trim()); $('key').value = ''; }, { once: true });
  dialog.showModal();
}));

function size(bytes) {
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1000))} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

async function begin() {
  try {
    state.limits = await json('/v1/about');
  } catch (error) {
    $('service').textContent = error.message;
    return;
  }
  offer(state.limits.segmenter);
  if (state.limits.segmenter && !state.limits.segmenter.ready) waitForSegmenter();
  const text = state.limits.demo ? 'Demonstration: a small model with random weights. What it makes means nothing.' : '';
  $('service').textContent = state.limits.ready ? text : 'The model is being loaded; jobs wait until then.';
  const id = /^#job=([A-Z0-9]+)$/.exec(location.hash)?.[1];
  if (!id) return;
  try {
    watch(await json(`/v1/jobs/${id}`));
  } catch (error) {
    const gone = error instanceof Problem && error.status === 404;
    complain('job-error', gone ? 'That job is not there any more: results are kept for a limited time.' : error.message);
  }
}

// waitForSegmenter offers the segmenter when it is loaded.
async function waitForSegmenter() {
  for (;;) {
    await new Promise((done) => { setTimeout(done, 2000); });
    const { segmenter } = await json('/v1/about').catch(() => ({}));
    if (segmenter?.ready) {
      offer(segmenter);
      return;
    }
  }
}

begin();
