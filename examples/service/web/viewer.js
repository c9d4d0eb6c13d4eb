// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// The viewer of a result: splats, mesh and point map, to be turned around or seen over the photograph.
// `npm run build` bundles it with three.js and Spark.

import * as THREE from 'three';
import { OrbitControls } from 'three/examples/jsm/controls/OrbitControls.js';
import { GLTFLoader } from 'three/examples/jsm/loaders/GLTFLoader.js';
import { PLYLoader } from 'three/examples/jsm/loaders/PLYLoader.js';
import { SparkRenderer, SplatFileType, SplatMesh } from '@sparkjsdev/spark';

const DISTANCE = 2.1; // from which the object's cube fills the view

// poseMatrix takes object coordinates (z up) to the camera frame: +X left, +Y up, +Z forward. The pose turns row
// vectors, hence the conjugate.
function poseMatrix(pose) {
  const [w, x, y, z] = pose.rotation_wxyz;
  return new THREE.Matrix4().compose(
    new THREE.Vector3(...pose.translation),
    new THREE.Quaternion(-x, -y, -z, w).normalize(),
    new THREE.Vector3(pose.scale, pose.scale, pose.scale),
  );
}

export class Viewer {
  // canvas is where to draw; onError is told about a lost graphics context.
  constructor(canvas, onError) {
    this.canvas = canvas;
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: false, alpha: true, powerPreference: 'high-performance' });
    this.renderer.setClearColor(0, 0);
    this.scene = new THREE.Scene();
    this.spark = new SparkRenderer({ renderer: this.renderer, onDirty: () => this.draw() });
    this.scene.add(this.spark);
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x888888, 2.2));
    this.sun = new THREE.DirectionalLight(0xffffff, 1.4);
    this.sun.position.set(1, 2, 3);
    this.scene.add(this.sun);
    this.pivot = new THREE.Group(); // holds object coordinates
    this.pivot.matrixAutoUpdate = false;
    this.scene.add(this.pivot);
    this.layers = {};
    this.frames = 0;
    this.pending = false;

    this.orbitCamera = new THREE.PerspectiveCamera(40, 1, 0.01, 1000);
    this.photoCamera = new THREE.PerspectiveCamera(50, 1, 0.001, 1e6); // at the origin, looking along -Z
    this.controls = new OrbitControls(this.orbitCamera, canvas);
    this.controls.enableDamping = true;
    this.controls.minDistance = 0.3;
    this.controls.maxDistance = 20;
    this.controls.addEventListener('change', () => this.draw());
    canvas.addEventListener('webglcontextlost', (event) => {
      event.preventDefault();
      onError('The browser has given up the graphics context. Reload the page to see the result again.');
    });
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(canvas);
    this.setView('orbit');
    this.reset();
  }

  // show loads what there is of a result: splats and points as PLY, mesh as GLB, document as parsed result.json.
  async show({ splats, mesh, points, document }) {
    this.clear();
    this.pose = poseMatrix(document.pose);
    this.camera = document.camera;
    if (splats) {
      const layer = new SplatMesh({ fileBytes: splats, fileType: SplatFileType.PLY, fileName: 'result.ply' });
      await layer.initialized;
      this.add('splats', layer);
    }
    if (mesh) {
      const layer = (await new GLTFLoader().parseAsync(mesh, '')).scene; // y up
      layer.rotation.x = Math.PI / 2;
      this.add('mesh', layer);
    }
    if (points) {
      const geometry = new PLYLoader().parse(points);
      const material = new THREE.PointsMaterial({ size: 2, sizeAttenuation: false, vertexColors: geometry.hasAttribute('color') });
      const layer = new THREE.Points(geometry, material);
      layer.matrixAutoUpdate = false;
      layer.matrix.copy(this.pose).invert(); // from the camera frame back to the object's
      layer.frustumCulled = false;
      this.add('points', layer);
    }
    this.setView('orbit');
    this.reset();
  }

  add(name, layer) {
    this.layers[name] = layer;
    this.pivot.add(layer);
  }

  // setLayer shows or hides 'splats', 'mesh' or 'points'.
  setLayer(name, visible) {
    if (this.layers[name]) this.layers[name].visible = visible;
    this.draw();
  }

  // setView chooses 'orbit', around the object, or 'photo', from where the photograph was taken.
  setView(view) {
    this.view = view === 'photo' && this.camera ? 'photo' : 'orbit';
    this.controls.enabled = this.view === 'orbit';
    if (this.view === 'photo') {
      this.photoCamera.fov = this.camera.fov_y_degrees;
      const distance = new THREE.Vector3().setFromMatrixPosition(this.pose).length() || 1;
      this.photoCamera.near = distance / 1000;
      this.photoCamera.far = distance * 1000;
      this.pivot.matrix.makeRotationY(Math.PI).multiply(this.pose); // three.js looks along -Z with +X right
    } else {
      this.pivot.matrix.makeRotationX(-Math.PI / 2); // z up to y up
    }
    this.pivot.matrixWorldNeedsUpdate = true;
    this.resize();
  }

  // rotate turns the view by angles in radians, for keys.
  rotate(around, up) {
    if (this.view !== 'orbit') return;
    const offset = this.orbitCamera.position.clone().sub(this.controls.target);
    const at = new THREE.Spherical().setFromVector3(offset);
    at.theta += around;
    at.phi = Math.min(Math.PI - 0.05, Math.max(0.05, at.phi - up));
    this.orbitCamera.position.setFromSpherical(at).add(this.controls.target);
    this.draw();
  }

  // zoom scales the distance to the object.
  zoom(factor) {
    const offset = this.orbitCamera.position.clone().sub(this.controls.target).multiplyScalar(factor);
    offset.clampLength(this.controls.minDistance, this.controls.maxDistance);
    this.orbitCamera.position.copy(this.controls.target).add(offset);
    this.draw();
  }

  // reset brings the first view back.
  reset() {
    this.controls.enableDamping = false; // an update without it ends a turn that goes on by itself
    this.controls.update();
    this.controls.enableDamping = true;
    this.controls.target.set(0, 0, 0);
    this.orbitCamera.position.set(0.55, 0.4, 1).setLength(DISTANCE);
    this.controls.update();
    this.draw();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    this.renderer.setSize(width, height, false);
    for (const camera of [this.orbitCamera, this.photoCamera]) {
      camera.aspect = width / height;
      camera.updateProjectionMatrix();
    }
    this.draw();
  }

  // draw asks for one frame; while the view still moves, each frame asks for the next.
  draw() {
    if (this.pending || this.disposed) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      if (this.disposed) return;
      if (this.view === 'orbit') this.controls.update();
      this.renderer.render(this.scene, this.view === 'orbit' ? this.orbitCamera : this.photoCamera);
      this.frames += 1;
    });
  }

  clear() {
    for (const layer of Object.values(this.layers)) {
      this.pivot.remove(layer);
      layer.traverse?.((part) => {
        part.geometry?.dispose();
        part.material?.dispose?.();
      });
      layer.dispose?.();
    }
    this.layers = {};
  }

  dispose() {
    this.disposed = true;
    this.resizing.disconnect();
    this.clear();
    this.controls.dispose();
    this.renderer.dispose();
  }
}
