"use strict";
// Measured and predicted motion over each other: a robot's skeleton and bodies, drawn by parallel projection.
window.playback = (() => {
  const place = document.getElementById("playback-canvas");
  if (!place) return null;
  const data = JSON.parse(document.getElementById("playback-data").textContent);
  const { links, middle, size, lowest } = data.scene;
  const control = (name) => document.getElementById(`playback-${name}`);
  const view = { yaw: data.scene.yaw, pitch: data.scene.pitch, zoom: 1 };
  const state = { frame: 0, playing: false, wanted: true, last: 0 };
  const frames = data.measured.length;

  // Small vectors and matrices; matrices are three rows.
  const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
  const scaled = (a, k) => [a[0] * k, a[1] * k, a[2] * k];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const times = (A, v) => [dot(A[0], v), dot(A[1], v), dot(A[2], v)];
  const product = (A, B) => A.map((row) => [0, 1, 2].map((k) => row[0] * B[0][k] + row[1] * B[1][k] + row[2] * B[2][k]));
  function turn([x, y, z], angle) {
    const [c, s] = [Math.cos(angle), Math.sin(angle)], k = 1 - c;
    return [
      [c + x * x * k, x * y * k - z * s, x * z * k + y * s],
      [y * x * k + z * s, c + y * y * k, y * z * k - x * s],
      [z * x * k - y * s, z * y * k + x * s, c + z * z * k],
    ];
  }

  // The frame of each link in the world: T_world_link = T_world_parent · T_parent_link(q).
  function poses(q) {
    const found = [];
    links.forEach((link, i) => {
      if (link.free) { found.push({ R: attitude(q[i].slice(3)), p: q[i].slice(0, 3) }); return; }
      const base = link.parent < 0 ? { R: [[1, 0, 0], [0, 1, 0], [0, 0, 1]], p: [0, 0, 0] } : found[link.parent];
      const slid = link.slides ? times(link.rotation, scaled(link.axis, q[i])) : [0, 0, 0];
      const R = link.slides ? link.rotation : product(link.rotation, turn(link.axis, q[i]));
      found.push({ R: product(base.R, R), p: add(base.p, times(base.R, add(link.translation, slid))) });
    });
    return found;
  }

  // Of a quaternion w x y z.
  function attitude([w, x, y, z]) {
    return [
      [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
      [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
      [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ];
  }

  let screen = null;
  function look() {
    const [c, s] = [Math.cos(view.yaw), Math.sin(view.yaw)];
    const [cp, sp] = [Math.cos(view.pitch), Math.sin(view.pitch)];
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [place.clientWidth, place.clientHeight];
    if (place.width !== Math.round(width * ratio)) place.width = Math.round(width * ratio);
    if (place.height !== Math.round(height * ratio)) place.height = Math.round(height * ratio);
    const unit = (0.95 * Math.min(width, height) * view.zoom) / size;
    screen = { right: [c, s, 0], up: [-s * sp, c * sp, cp], unit, width, height, ratio };
  }
  function project(p) {
    const d = [p[0] - middle[0], p[1] - middle[1], p[2] - middle[2]];
    return [screen.width / 2 + screen.unit * dot(d, screen.right), screen.height / 2 - screen.unit * dot(d, screen.up)];
  }

  function line(pen, a, b) {
    pen.beginPath();
    pen.moveTo(...project(a));
    pen.lineTo(...project(b));
    pen.stroke();
  }
  function ground(pen, colours) {
    const z = Math.min(lowest, 0), half = 0.75 * size, step = size / 8;
    pen.strokeStyle = colours.grid;
    pen.lineWidth = 1;
    for (let k = -half; k <= half + 1e-9; k += step) {
      line(pen, [middle[0] + k, middle[1] - half, z], [middle[0] + k, middle[1] + half, z]);
      line(pen, [middle[0] - half, middle[1] + k, z], [middle[0] + half, middle[1] + k, z]);
    }
  }
  // A body's outline: the projection of an ellipsoid is the ellipse of the projected axes.
  function body(pen, pose, link, colour, filled) {
    const W = product(pose.R, link.body);
    const across = [0, 1, 2].map((k) => dot([W[0][k], W[1][k], W[2][k]], screen.right));
    const upward = [0, 1, 2].map((k) => -dot([W[0][k], W[1][k], W[2][k]], screen.up));
    const [a, b, d] = [dot(across, across), dot(across, upward), dot(upward, upward)];
    const root = Math.hypot((a - d) / 2, b);
    const long = Math.sqrt(Math.max((a + d) / 2 + root, 0)), short = Math.sqrt(Math.max((a + d) / 2 - root, 0));
    const [x, y] = project(add(pose.p, times(pose.R, link.centre)));
    pen.beginPath();
    pen.ellipse(x, y, Math.max(long * screen.unit, 1), Math.max(short * screen.unit, 1), Math.atan2(2 * b, a - d) / 2, 0, 2 * Math.PI);
    paint(pen, colour, filled ? 0.12 : 0, 0.55);
  }
  // The path that was drawn, filled and outlined so strongly.
  function paint(pen, colour, inside, outline) {
    pen.fillStyle = pen.strokeStyle = colour;
    pen.globalAlpha = inside;
    pen.fill();
    pen.globalAlpha = outline;
    pen.lineWidth = 1;
    pen.stroke();
    pen.globalAlpha = 1;
  }
  // A shape of the robot's file: the outline of its projected points, by Andrew's chain.
  function shape(pen, pose, points, colour, filled) {
    const seen = points.map((p) => project(add(pose.p, times(pose.R, p)))).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const left = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]) <= 0;
    const chain = (several) => {
      const found = [];
      for (const p of several) {
        while (found.length > 1 && left(found[found.length - 2], found[found.length - 1], p)) found.pop();
        found.push(p);
      }
      return found.slice(0, -1);
    };
    pen.beginPath();
    [...chain(seen), ...chain([...seen].reverse())].forEach((p) => pen.lineTo(...p));
    pen.closePath();
    paint(pen, colour, filled ? 0.1 : 0, 0.35);
  }
  function robot(pen, q, colour, width, filled) {
    const found = poses(q);
    pen.strokeStyle = colour;
    pen.fillStyle = colour;
    pen.lineCap = "round";
    links.forEach((link, i) => {
      const pose = found[i];
      if (control("bodies").checked && link.hulls.length) link.hulls.forEach((points) => shape(pen, pose, points, colour, filled));
      else if (control("bodies").checked && link.body) body(pen, pose, link, colour, filled);
      pen.strokeStyle = colour;
      pen.fillStyle = colour;
      pen.lineWidth = width;
      for (const end of link.ends) line(pen, pose.p, add(pose.p, times(pose.R, end)));
      const [x, y] = project(pose.p);
      pen.beginPath();
      if (link.slides) pen.rect(x - 1.6 * width, y - 1.6 * width, 3.2 * width, 3.2 * width);
      else pen.arc(x, y, 1.4 * width, 0, 2 * Math.PI);
      pen.fill();
    });
  }
  // What stands still: the base's links, and the rails of joints that slide on it.
  function fixed(pen, colours) {
    const still = { R: [[1, 0, 0], [0, 1, 0], [0, 0, 1]], p: [0, 0, 0] };
    if (control("bodies").checked) data.scene.base.forEach((points) => shape(pen, still, points, colours.line, true));
    pen.strokeStyle = colours.line;
    pen.lineWidth = 3;
    links.forEach((link) => {
      if (link.parent >= 0 || link.free) return;
      line(pen, [0, 0, 0], link.translation);
      if (!link.slides) return;
      const along = times(link.rotation, link.axis), reach = 0.15 * size;
      line(pen, add(link.translation, scaled(along, link.rail[0] - reach)), add(link.translation, scaled(along, link.rail[1] + reach)));
    });
  }
  function tip(q) {
    const found = poses(q), link = links[links.length - 1], pose = found[links.length - 1];
    return add(pose.p, times(pose.R, link.ends[0] ?? [0, 0, 0]));
  }
  function trail(pen, motion, colour) {
    const span = Math.round(0.6 / data.dt);
    pen.strokeStyle = colour;
    pen.lineWidth = 1.2;
    pen.globalAlpha = 0.5;
    pen.beginPath();
    for (let k = Math.max(0, state.frame - span); k <= state.frame; k += 1) pen.lineTo(...project(tip(motion[k])));
    pen.stroke();
    pen.globalAlpha = 1;
  }

  const run = () => (data.runs.length ? data.runs[Number(control("run").value)] : null);
  function draw() {
    look();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = { grid: colour("grid"), line: colour("line"), measured: colour("ink"), fit: colour("bounded"), start: colour("unbounded") };
    const pen = place.getContext("2d");
    pen.setTransform(screen.ratio, 0, 0, screen.ratio, 0, 0);
    pen.clearRect(0, 0, screen.width, screen.height);
    ground(pen, colours);
    fixed(pen, colours);
    const shown = run();
    trail(pen, data.measured, colours.measured);
    if (shown) trail(pen, shown.q, colours[shown.model]);
    robot(pen, data.measured[state.frame], colours.measured, 4, true);
    if (shown) robot(pen, shown.q[state.frame], colours[shown.model], 2.5, false);
    control("scrub").value = state.frame;
    control("time").textContent = `${(state.frame * data.dt).toFixed(2)} s`;
    place.dataset.frame = state.frame;
  }

  function tick(now) {
    if (!state.playing) return;
    const passed = ((now - state.last) / 1000) * Number(control("speed").value);
    const ahead = Math.floor(passed / data.dt);
    if (ahead > 0) {
      state.frame = (state.frame + ahead) % frames;
      state.last = now - (passed - ahead * data.dt) * 1000 / Number(control("speed").value);
      draw();
    }
    requestAnimationFrame(tick);
  }
  function play(on) {
    if (state.playing === on) return;
    state.playing = on;
    control("play").textContent = on ? "pause" : "play";
    control("play").setAttribute("aria-pressed", on);
    state.last = performance.now();
    if (on) requestAnimationFrame(tick);
  }
  control("play").addEventListener("click", () => { state.wanted = !state.playing; play(state.wanted); });
  control("scrub").max = frames - 1;
  control("scrub").addEventListener("input", (event) => { state.wanted = false; play(false); state.frame = Number(event.target.value); draw(); });
  for (const name of ["run", "bodies"]) control(name)?.addEventListener("input", draw);

  // Orbit with mouse, pen or finger; two fingers, or the buttons, for distance.
  const held = new Map();
  let spread = 0;
  const apart = () => { const [a, b] = [...held.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
  function closer(factor) { view.zoom = Math.min(8, Math.max(0.2, view.zoom * factor)); draw(); }
  place.addEventListener("pointerdown", (event) => {
    place.setPointerCapture(event.pointerId);
    held.set(event.pointerId, [event.clientX, event.clientY]);
    if (held.size === 2) spread = apart();
  });
  place.addEventListener("pointermove", (event) => {
    const old = held.get(event.pointerId);
    if (!old) return;
    held.set(event.pointerId, [event.clientX, event.clientY]);
    if (held.size === 2) { const now = apart(); closer(now / Math.max(spread, 1)); spread = now; return; }
    view.yaw -= (event.clientX - old[0]) * 0.008;
    view.pitch = Math.min(1.57, Math.max(-1.57, view.pitch + (event.clientY - old[1]) * 0.008));
    draw();
  });
  for (const end of ["pointerup", "pointercancel"]) place.addEventListener(end, (event) => held.delete(event.pointerId));
  place.addEventListener("dblclick", () => { Object.assign(view, { yaw: data.scene.yaw, pitch: data.scene.pitch, zoom: 1 }); draw(); });
  place.addEventListener("wheel", (event) => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); closer(Math.exp(-event.deltaY * 0.003)); } }, { passive: false });
  place.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
    if (!moves[event.key]) return;
    event.preventDefault();
    view.yaw += moves[event.key][0];
    view.pitch += moves[event.key][1];
    draw();
  });
  control("closer").addEventListener("click", () => closer(1.25));
  control("farther").addEventListener("click", () => closer(0.8));

  new ResizeObserver(draw).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // It moves by itself while it is in sight, unless the reader wants no motion.
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  new IntersectionObserver(([seen]) => play(seen.isIntersecting && state.wanted && !calm), { threshold: 0.4 }).observe(place);
  draw();
  return { poses, state, view, draw };
})();
