// The live view of one experiment. Law: it shows what the kernel read from the store, and asks; it decides nothing.
// Names, reasons and values come from people and training code: they are text, never markup.

const ENDED = new Set(["completed", "stopped", "failed"]);
const ROW = 27; // height of a table row, as in live.css
const DRAWN = 80000; // points drawn at most; beyond that every curve is thinned to what its pixels can show
const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
const BINS = 24;

// ---------------------------------------------------------------------------------------------------------------------
// What is known, shared by all views of one model

const boards = new Map();

class Board {
  constructor(model) {
    this.model = model;
    this.listeners = new Set();
    this.views = new Set();
    this.answers = new Map(); // trial (or "all") -> words shown beside its button
    this.asking = null;
    this.plotlySource = null;
    this.restore(model.get("snapshot"));
    model.on("msg:custom", (message, buffers) => this.hear(message, buffers));
    model.on("change:snapshot", () => {
      const snapshot = model.get("snapshot");
      if ((snapshot.serial ?? 0) > this.serial) this.restore(snapshot);
    });
    // Messages sent between the kernel's snapshot and now were lost; it sends everything if there were any.
    this.send({ kind: "hello", serial: this.serial });
  }

  restore(snapshot) {
    this.serial = snapshot.serial ?? 0;
    this.header = snapshot.header ?? {};
    this.parameters = snapshot.parameters ?? [];
    this.trials = new Map((snapshot.rows ?? []).map((row) => [row.number, row]));
    this.curves = new Map();
    this.metric = snapshot.metric;
    if (snapshot.points) this.add(snapshot.points);
    this.tell();
  }

  hear(message, buffers) {
    if (message.kind === "plotly") {
      this.plotlySource?.(new TextDecoder().decode(buffers[0]));
      return;
    }
    if (message.kind === "figure") {
      for (const view of this.views) view.leave(message.bundle);
      return;
    }
    if (message.kind === "said") {
      this.answers.set(message.trial ?? "all", message.error ?? "");
      this.tell();
      return;
    }
    if (message.kind === "anew") {
      this.asking = null;
      this.restore({ ...message.snapshot, points: buffers[0] });
      return;
    }
    if (message.kind !== "more") return;
    if (message.serial !== this.serial + 1) {
      // One hello at a time: its answer brings everything.
      if (message.serial > this.serial && this.asking === null) {
        this.asking = message.serial;
        this.send({ kind: "hello", serial: this.serial });
      }
      return;
    }
    this.serial = message.serial;
    if (message.header) this.header = message.header;
    if (message.parameters) this.parameters = message.parameters;
    for (const row of message.rows ?? []) this.trials.set(row.number, row);
    if (buffers?.length) this.add(buffers[0]);
    this.tell();
  }

  // Points travel as triples of doubles: trial, x, y.
  add(buffer) {
    const bytes = buffer instanceof DataView ? buffer : new DataView(buffer.buffer ?? buffer);
    const values = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    for (let i = 0; i + 2 < values.length; i += 3) {
      let curve = this.curves.get(values[i]);
      if (!curve) this.curves.set(values[i], (curve = { x: [], y: [] }));
      const x = values[i + 1], last = curve.x.length - 1;
      if (last < 0 || x > curve.x[last]) {
        curve.x.push(x);
        curve.y.push(values[i + 2]);
        continue;
      }
      let at = last; // a point told again, or late: nearly always the last one
      while (at > 0 && curve.x[at] > x) at -= 1;
      if (curve.x[at] === x) curve.y[at] = values[i + 2];
      else {
        const place = curve.x[at] < x ? at + 1 : at;
        curve.x.splice(place, 0, x);
        curve.y.splice(place, 0, values[i + 2]);
      }
    }
  }

  // Best first; without a value last; older first among equals.
  ranked() {
    const sign = this.header.goal?.mode === "min" ? 1 : -1;
    const key = (row) => (Number.isFinite(row.value) ? sign * row.value : Infinity);
    return [...this.trials.values()].sort((a, b) => compare(key(a), key(b)) || a.number - b.number);
  }

  send(message) {
    try {
      this.model.send(message);
    } catch {
      // Without a kernel there is nobody to ask; what is known stays on the screen.
    }
  }

  ask(kind, trial, done) {
    this.answers.delete(trial ?? "all");
    this.send({ kind, trial });
    setTimeout(() => {
      if (!this.answers.has(trial ?? "all") && !done()) {
        this.answers.set(trial ?? "all", `The kernel does not answer. In a terminal: workbench ${kind} ${this.header.label}`);
        this.tell();
      }
    }, 5000);
  }

  tell() {
    for (const listener of this.listeners) listener();
  }
}

function boardOf(model) {
  const key = model.get("uid");
  if (!boards.has(key)) boards.set(key, new Board(model));
  return boards.get(key);
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// ---------------------------------------------------------------------------------------------------------------------
// Plotly: from the Jupyter server, or from the kernel where the page has no such server; never from the network

const PLOTLY = Symbol.for("workbench.plotly");

function plotly(board) {
  globalThis[PLOTLY] ??= (async () => {
    const source = (await fromServer()) ?? (await fromKernel(board));
    // Own scope: pages with RequireJS would otherwise take it for one of their modules.
    const text = `const define = undefined, module = undefined, exports = undefined;\n${source}\nexport default window.Plotly;`;
    const before = window.Plotly;
    const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    try {
      return (await import(/* webpackIgnore: true */ address)).default;
    } finally {
      URL.revokeObjectURL(address);
      if (before) window.Plotly = before;
    }
  })();
  globalThis[PLOTLY].catch(() => delete globalThis[PLOTLY]);
  return globalThis[PLOTLY];
}

async function fromServer() {
  if (!/^https?:$/.test(location.protocol)) return null;
  const config = document.getElementById("jupyter-config-data");
  let base = document.body?.dataset?.baseUrl;
  try {
    base ??= JSON.parse(config?.textContent ?? "{}").baseUrl;
  } catch {
    base = null;
  }
  if (!base) return null;
  try {
    const answer = await fetch(new URL(`${base.replace(/\/?$/, "/")}workbench/static/plotly.min.js`, location.href));
    const type = answer.headers.get("content-type") ?? "";
    return answer.ok && type.includes("javascript") ? await answer.text() : null;
  } catch {
    return null;
  }
}

function fromKernel(board) {
  return new Promise((resolve, reject) => {
    board.plotlySource = resolve;
    board.send({ kind: "plotly" });
    setTimeout(() => reject(new Error("neither the Jupyter server nor the kernel sent Plotly")), 30000);
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// Words and colours

function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

const label = (trial) => `t${String(trial).padStart(4, "0")}`;

function duration(seconds) {
  if (seconds < 59.5) return `${seconds < 9.95 ? Math.max(seconds, 0).toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function mixed(t) {
  const at = Math.min(Math.max(t, 0), 1) * (VIRIDIS.length - 1), i = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const part = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  const mix = (k) => Math.round(part(VIRIDIS[i], k) * (1 - at + i) + part(VIRIDIS[i + 1], k) * (at - i));
  return `rgb(${mix(0)},${mix(1)},${mix(2)})`;
}

// The end of viridis that stands out against the page is the better one, so that the eye finds it.
const colour = (rank, dark) => mixed(dark ? 0.22 + 0.74 * rank : 0.86 - 0.82 * rank);

// A value's place between worse (0) and better (1); outliers at the bad end do not squeeze the rest together.
function scale(board) {
  const of = (rows) => rows.map((row) => row.value).filter(Number.isFinite).sort(compare);
  const rows = [...board.trials.values()], coloured = of(rows.filter((row) => row.state !== "stopped" && row.state !== "failed"));
  const values = coloured.length > 1 ? coloured : of(rows); // the others are grey
  if (!values.length) return { rank: () => 0.5 };
  const max = board.header.goal?.mode !== "min";
  const at = (q) => values[Math.round(q * (values.length - 1))];
  const [worst, best] = max ? [at(values.length > 8 ? 0.15 : 0), at(1)] : [at(values.length > 8 ? 0.85 : 1), at(0)];
  const rank = (value) => {
    if (!Number.isFinite(value)) return 0;
    return worst === best ? 1 : Math.min(Math.max((value - worst) / (best - worst), 0), 1);
  };
  return { worst, best, rank };
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const SHAPES = {
  waiting: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Zm0 2.5v3.2l2 1.6",
  running: "M5.5 3.5v9l7-4.5z",
  paused: "M5.5 3.5v9M10.5 3.5v9",
  stopping: "M4.5 4.5h7v7h-7z",
  completed: "M3 8.5l3.2 3.2L13 5",
  stopped: "M4.5 4.5h7v7h-7z",
  failed: "M4 4l8 8M12 4l-8 8",
};

function icon(state) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", `wb-icon wb-${state}`);
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", SHAPES[state] ?? SHAPES.waiting);
  svg.append(path);
  return svg;
}

// ---------------------------------------------------------------------------------------------------------------------
// Curves

// Of each bucket its lowest and highest point, and both ends: what the pixels can show.
function thinned(curve, most) {
  const n = curve.x.length;
  if (n <= most) return curve;
  const x = [curve.x[0]], y = [curve.y[0]], buckets = Math.max(1, (most - 2) >> 1);
  for (let k = 0; k < buckets; k++) {
    const from = Math.max(1, Math.floor((k * n) / buckets)), to = Math.min(n - 1, Math.floor(((k + 1) * n) / buckets));
    let low = from, high = from;
    for (let i = from; i < to; i++) {
      if (curve.y[i] < curve.y[low]) low = i;
      if (curve.y[i] > curve.y[high]) high = i;
    }
    for (const i of low === high ? [low] : low < high ? [low, high] : [high, low]) {
      if (i >= to) continue;
      x.push(curve.x[i]);
      y.push(curve.y[i]);
    }
  }
  x.push(curve.x[n - 1]);
  y.push(curve.y[n - 1]);
  return { x, y };
}

// Curves of like look share one trace, with gaps between them: 1,000 trials cost Plotly some fifty traces.
function traces(board, theme, lit) {
  const groups = new Map(), { rank } = scale(board);
  const budget = Math.max(16, Math.floor(DRAWN / Math.max(1, board.curves.size)));
  const best = board.header.best?.trial;
  const put = (key, order, style, trial, curve) => {
    let group = groups.get(key);
    if (!group) groups.set(key, (group = { order, style, x: [], y: [], owners: [] }));
    if (group.x.length) {
      group.x.push(null);
      group.y.push(null);
      group.owners.push(-1);
    }
    for (let i = 0; i < curve.x.length; i++) {
      group.x.push(curve.x[i]);
      group.y.push(curve.y[i]);
      group.owners.push(trial);
    }
  };
  for (const [trial, whole] of board.curves) {
    const row = board.trials.get(trial), state = row?.state ?? "running", curve = thinned(whole, budget);
    const bin = Math.round(rank(row?.value) * BINS) / BINS, tint = colour(bin, theme.dark);
    const end = { x: curve.x.slice(-1), y: curve.y.slice(-1) };
    const wide = trial === best ? 1 : 0;
    if (state === "stopped" || state === "failed") {
      put("out", 0, { color: theme.out, width: 1, dots: curve.x.length === 1 }, trial, curve);
      if (curve.x.length === 1) put("out.", 0, { color: theme.out, width: 0, dots: 3 }, trial, curve);
    } else if (state === "completed") {
      put(`done${bin}${wide}`, 2 + bin + 2 * wide, { color: tint, width: 2.4 + wide }, trial, curve);
      put(`done.${bin}${wide}`, 2 + bin + 2 * wide, { color: tint, width: 0, dots: 6 + wide }, trial, end);
    } else {
      put(`live${bin}${wide}`, 1 + bin, { color: tint, width: 1.5 + wide }, trial, curve);
      if (state === "running" || curve.x.length === 1)
        put(`live.${bin}`, 1 + bin, { color: tint, width: 0, dots: 4.5 }, trial, end);
    }
  }
  if (lit !== null && board.curves.has(lit))
    put("lit", 9, { color: theme.text, width: 3 }, lit, thinned(board.curves.get(lit), budget));
  return [...groups.values()]
    .sort((a, b) => a.order - b.order)
    .map(({ style, x, y, owners }) => ({
      x, y, owners,
      type: "scatter",
      mode: style.width ? "lines" : "markers",
      line: { color: style.color, width: style.width },
      marker: { color: style.color, size: style.dots },
      connectgaps: false,
      hoverinfo: "none",
      showlegend: false,
    }));
}

function layout(board, theme, logarithmic) {
  const axis = {
    color: theme.soft, gridcolor: theme.grid, linecolor: theme.grid, zeroline: false, automargin: true,
    ticks: "outside", ticklen: 4, tickcolor: theme.grid,
  };
  const last = board.header.last;
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: theme.font, size: 12, color: theme.text },
    margin: { l: 52, r: 16, t: 10, b: 40 },
    hovermode: "closest", hoverdistance: 24, dragmode: "zoom", showlegend: false, uirevision: "kept",
    xaxis: { ...axis, title: { text: "step", standoff: 8 }, range: last ? [0, last * 1.015] : undefined, rangemode: "tozero" },
    yaxis: { ...axis, type: logarithmic ? "log" : "linear" },
  };
}

// ---------------------------------------------------------------------------------------------------------------------
// The view

class View {
  constructor(board, root) {
    this.board = board;
    this.root = root;
    this.sort = { key: "value", up: false };
    this.lit = null;
    this.order = [];
    this.logarithmic = false;
    this.cost = 0;
    this.pending = null;
    this.later = null;
    this.build();
    this.listener = () => this.schedule();
    board.listeners.add(this.listener);
    board.views.add(this);
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(this.chart);
    this.themes = new MutationObserver(() => this.schedule());
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["class", "data-jp-theme-name", "data-jp-theme-light", "data-vscode-theme-kind"] });
    this.light = matchMedia("(prefers-color-scheme: dark)");
    this.light.addEventListener("change", this.listener);
    this.clock = setInterval(() => this.words(), 1000);
    this.schedule();
    plotly(board).then(
      (found) => {
        this.plotly = found;
        this.schedule();
      },
      (error) => (this.blank.textContent = `No curves: ${error.message}.`),
    );
  }

  dispose() {
    this.board.listeners.delete(this.listener);
    this.board.views.delete(this);
    clearTimeout(this.leaving);
    this.light.removeEventListener("change", this.listener);
    this.sizes.disconnect();
    this.themes.disconnect();
    clearInterval(this.clock);
    clearTimeout(this.later);
    cancelAnimationFrame(this.pending);
    if (this.plotly && this.drawn) this.plotly.purge(this.chart);
  }

  build() {
    const root = this.root;
    root.classList.add("workbench-live");
    root.setAttribute("role", "region");

    const head = element("div", "wb-head");
    this.mark = element("span", "wb-mark");
    this.title = element("span", "wb-title");
    this.version = element("span", "wb-version");
    this.state = element("span", "wb-state");
    this.state.setAttribute("role", "status");
    this.trouble = element("span", "wb-trouble");
    this.pause = element("button", "wb-button", "Pause");
    this.stop = element("button", "wb-button wb-stop", "Stop experiment");
    for (const button of [this.pause, this.stop]) button.type = "button";
    this.pause.addEventListener("click", () => {
      const kind = this.board.header.state === "paused" ? "resume" : "pause", before = this.board.header.state;
      this.board.ask(kind, null, () => this.board.header.state !== before);
    });
    this.stop.addEventListener("click", () => this.askStop(null));
    const buttons = element("span", "wb-buttons");
    buttons.append(this.pause, this.stop);
    const name = element("span", "wb-name");
    name.append(this.mark, this.title, this.version);
    head.append(name, this.state, this.trouble, buttons);

    this.facts = element("div", "wb-facts");
    this.fact = {};
    for (const [key, words] of [["best", "Best"], ["trials", "Trials"], ["slots", "Slots"], ["time", "Time"]]) {
      const pair = element("div", `wb-fact wb-fact-${key}`), term = element("div", "wb-term", words), value = element("div", "wb-value");
      pair.append(term, value);
      this.facts.append(pair);
      this.fact[key] = { term, value };
    }
    this.bar = element("div", "wb-bar");
    this.done = element("div", "wb-done");
    this.bar.append(this.done);
    this.bar.setAttribute("role", "progressbar");
    this.changed = element("p", "wb-changed");

    const tools = element("div", "wb-tools");
    this.metric = element("select", "wb-select");
    this.metric.setAttribute("aria-label", "Metric of the curves");
    this.metric.addEventListener("change", () => this.board.send({ kind: "metric", name: this.metric.value }));
    this.logs = element("button", "wb-toggle", "log");
    this.logs.type = "button";
    this.logs.title = "Logarithmic scale";
    this.logs.setAttribute("aria-pressed", "false");
    this.logs.addEventListener("click", () => {
      this.logarithmic = !this.logarithmic;
      this.logs.setAttribute("aria-pressed", String(this.logarithmic));
      this.schedule();
    });
    this.legend = element("span", "wb-legend");
    this.legend.setAttribute("aria-hidden", "true");
    tools.append(this.metric, this.logs, this.legend);

    const stage = element("div", "wb-stage");
    this.chart = element("div", "wb-chart");
    this.blank = element("div", "wb-blank", "");
    this.tip = element("div", "wb-tip");
    this.tip.hidden = true;
    stage.append(this.chart, this.blank, this.tip);
    this.stage = stage;

    this.scroll = element("div", "wb-scroll");
    this.scroll.tabIndex = 0;
    this.scroll.setAttribute("role", "group");
    this.scroll.setAttribute("aria-label", "Trials");
    const table = element("table", "wb-table");
    this.heads = element("tr");
    const top = element("thead");
    top.append(this.heads);
    this.rows = element("tbody");
    table.append(top, this.rows);
    this.table = table;
    this.scroll.append(table);
    this.scroll.addEventListener("scroll", () => this.fill(), { passive: true });
    // While somebody points at the table, rows keep their places: a button must not slip away under the pointer.
    this.scroll.addEventListener("pointerleave", () => this.light_up(null));
    this.scroll.addEventListener("focusout", () => this.schedule());
    this.foot = element("div", "wb-foot");

    root.append(head, this.facts, this.bar, this.changed, tools, stage, this.scroll, this.foot);
  }

  // -- drawing, once per animation frame, and a slow draw a third of the time at most -----------------------------------

  schedule() {
    if (this.pending !== null || this.later !== null) return;
    const wait = this.cost < 40 ? 0 : Math.max(0, (this.ended ?? 0) + 2 * this.cost - performance.now());
    const frame = () => {
      this.later = null;
      this.pending = requestAnimationFrame(() => {
        this.pending = null;
        const begun = performance.now();
        this.draw();
        this.ended = performance.now();
        this.cost = this.ended - begun;
      });
    };
    if (wait > 16) this.later = setTimeout(frame, wait);
    else frame();
  }

  draw() {
    this.theme = this.themed();
    this.words();
    this.tools();
    this.list();
    this.plot();
    if (ENDED.has(this.board.header.state)) this.leaving ??= setTimeout(() => this.board.send({ kind: "figure" }), 4000);
  }

  themed() {
    const style = getComputedStyle(this.root), read = (name) => style.getPropertyValue(name).trim();
    const [r, g, b] = (getComputedStyle(this.stage).backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
    const dark = 0.299 * r + 0.587 * g + 0.114 * b < 128;
    this.root.classList.toggle("wb-dark", dark);
    return { dark, text: read("--wb-text"), soft: read("--wb-soft"), out: dark ? "rgba(165,165,165,.45)" : "rgba(120,120,120,.45)", grid: dark ? "rgba(255,255,255,.1)" : "rgba(0,0,0,.09)", font: style.fontFamily };
  }

  words() {
    const { header, trials } = this.board, state = header.state ?? "waiting";
    set(this.title, header.name ?? "");
    set(this.version, header.version ? `@${header.version}` : "");
    if (this.mark.dataset.state !== state) {
      this.mark.dataset.state = state;
      this.mark.replaceChildren(icon(state));
    }
    const reason = header.reason && header.reason !== state ? `${state}: ${header.reason}` : state;
    set(this.state, ENDED.has(state) && state !== "failed" ? state : reason);
    this.state.title = header.reason ?? "";
    this.root.setAttribute("aria-label", `Experiment ${header.label ?? ""}`);
    set(this.trouble, this.board.answers.get("all") ?? "");

    const best = header.best, goal = header.goal ?? {};
    set(this.fact.best.term, `Best ${goal.metric ?? ""}`);
    set(this.fact.best.value, best ? shown(best.value) : "–", best ? label(best.trial) : "");
    const ended = [...trials.values()].filter((row) => ENDED.has(row.state)).length;
    set(this.fact.trials.value, String(ended), header.planned ? `of ${header.planned}` : `of ${trials.size}`);
    set(this.fact.slots.value, header.slots ? String(header.slots.used ?? 0) : "–", header.slots ? `of ${header.slots.given}` : "");
    this.fact.slots.value.parentElement.hidden = ENDED.has(state);
    const now = Date.now() / 1000, since = header.started ? (header.ended ?? now) - header.started : null;
    const left = header.seconds_left === null || header.seconds_left === undefined || ENDED.has(state) ? null : header.seconds_left - (now - header.told);
    set(this.fact.time.value, since === null ? "–" : duration(since), left === null ? "" : left > 1 ? `about ${duration(left)} left` : "nearly done");
    const part = ENDED.has(state) ? 1 : header.planned_steps ? Math.min(1, header.steps / header.planned_steps) : null;
    this.bar.hidden = part === null || ENDED.has(state);
    this.done.style.width = `${100 * (part ?? 0)}%`;
    this.bar.setAttribute("aria-valuenow", String(Math.round(100 * (part ?? 0))));
    this.bar.setAttribute("aria-label", "Steps trained");

    this.pause.hidden = ENDED.has(state);
    this.stop.hidden = ENDED.has(state);
    this.pause.disabled = state === "stopping" || state === "waiting";
    set(this.pause, state === "paused" ? "Resume" : "Pause");
    this.stop.disabled = state === "stopping";
    set(this.stop, state === "stopping" ? "Stopping…" : "Stop experiment");
    set(this.changed, (header.changed ?? []).join(" · "));
    this.changed.hidden = !header.changed?.length;
  }

  tools() {
    const names = this.board.header.names ?? [];
    if (this.metric.dataset.names !== JSON.stringify(names)) {
      this.metric.dataset.names = JSON.stringify(names);
      this.metric.replaceChildren(...names.map((name) => Object.assign(element("option", "", name), { value: name })));
    }
    if (document.activeElement !== this.metric) this.metric.value = this.board.metric ?? "";
    const { worst, best } = scale(this.board), key = JSON.stringify([worst, best, this.theme.dark]);
    if (this.legend.dataset.key === key) return;
    this.legend.dataset.key = key;
    const strip = element("span", "wb-strip");
    strip.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((t) => colour(t, this.theme.dark)).join(", ")})`;
    const out = element("span", "wb-out");
    this.legend.replaceChildren(
      ...(best === undefined ? [] : [element("span", "", shown(worst)), strip, element("span", "", shown(best))]),
      out, element("span", "", "stopped"),
    );
  }

  plot() {
    const none = this.board.curves.size === 0;
    this.blank.hidden = !none && this.drawn;
    if (none) set(this.blank, ENDED.has(this.board.header.state) ? `No ${this.board.metric} was reported.` : "Curves appear with the first report.");
    if (!this.plotly || !this.chart.offsetWidth) return;
    const made = traces(this.board, this.theme, this.lit);
    this.owners = made.map((trace) => trace.owners);
    const config = { displaylogo: false, displayModeBar: false, responsive: false, doubleClick: "reset" };
    const first = !this.drawn;
    this.drawn = true;
    this.plotly.react(this.chart, made, layout(this.board, this.theme, this.logarithmic), config);
    if (none === false) this.blank.hidden = true;
    this.chart.setAttribute("role", "img");
    this.chart.setAttribute("aria-label", `Curves of ${this.board.metric} over steps, ${this.board.curves.size} trials`);
    if (first) {
      this.chart.on("plotly_hover", (event) => this.hover(event));
      this.chart.on("plotly_unhover", () => this.light_up(null));
    }
  }

  // The kernel puts a figure in this view's place when the experiment has ended. A page that was reloaded meanwhile does
  // not know where; whoever owns the document (the JupyterLab extension) may do it on this event.
  leave(bundle) {
    if (this.root.isConnected) this.root.dispatchEvent(new CustomEvent("workbench:figure", { bubbles: true, detail: { bundle } }));
  }

  resized() {
    if (this.plotly && this.drawn && this.chart.offsetWidth) this.plotly.Plots.resize(this.chart);
    else this.schedule();
  }

  hover(event) {
    const point = event.points[0], trial = this.owners[point.curveNumber]?.[point.pointNumber];
    if (trial === undefined || trial < 0) return;
    this.light_up(trial);
    const row = this.board.trials.get(trial) ?? {}, box = this.stage.getBoundingClientRect();
    const lines = [[`${label(trial)}  ${row.state ?? ""}`, "wb-tip-head"], [`${this.board.metric} ${shown(point.y)} at step ${shown(point.x)}`, ""]];
    for (const [name, value] of Object.entries(row.configuration ?? {})) if (value !== null) lines.push([`${name} = ${shown(value)}`, "wb-tip-value"]);
    if (row.error || row.reason) lines.push([row.error || row.reason, "wb-tip-reason"]);
    this.tip.replaceChildren(...lines.map(([text, kind]) => element("div", kind, text)));
    this.tip.hidden = false;
    const x = event.event.clientX - box.left, y = event.event.clientY - box.top;
    this.tip.style.left = `${x > box.width / 2 ? Math.max(0, x - this.tip.offsetWidth - 14) : x + 14}px`;
    this.tip.style.top = `${Math.max(0, Math.min(y + 10, box.height - this.tip.offsetHeight))}px`;
  }

  light_up(trial) {
    if (trial === null) this.tip.hidden = true;
    if (this.lit === trial) return;
    this.lit = trial;
    this.schedule();
  }

  // -- the table: only the rows in sight exist ---------------------------------------------------------------------

  list() {
    const held = this.scroll.matches(":hover") || (this.scroll.contains(document.activeElement) && document.activeElement !== this.scroll);
    const known = new Set(this.order);
    if (!held || this.resort) this.order = this.sorted().map((row) => row.number);
    else for (const row of this.sorted()) if (!known.has(row.number)) this.order.push(row.number);
    this.resort = false;
    this.columns();
    this.fill();
  }

  sorted() {
    const ranked = this.board.ranked(), { key, up } = this.sort;
    if (key === "value") return up ? ranked.reverse() : ranked;
    const of = (row) => (key in row ? row[key] : row.configuration?.[key]);
    const filled = (value) => value !== null && value !== undefined;
    return ranked.sort((a, b) => {
      const x = of(a), y = of(b);
      if (!filled(x) || !filled(y)) return filled(y) - filled(x);
      return (up ? 1 : -1) * (typeof x === "number" && typeof y === "number" ? x - y : compare(String(x), String(y)));
    });
  }

  columns() {
    const goal = this.board.header.goal?.metric ?? "value";
    const wanted = [["number", "trial"], ["state", "state"], ["step", "step"], ["value", goal], ...this.board.parameters.map((name) => [name, name])];
    const key = JSON.stringify([wanted, this.sort]);
    if (this.heads.dataset.key === key) return;
    this.heads.dataset.key = key;
    const heads = wanted.map(([field, words], k) => {
      const head = element("th", k > 3 || k === 2 || k === 3 ? "wb-number" : "");
      head.scope = "col";
      const button = element("button", "wb-sort", words);
      button.type = "button";
      const sorted = this.sort.key === field, down = field === "value" ? !this.sort.up : !this.sort.up;
      head.setAttribute("aria-sort", sorted ? (down ? "descending" : "ascending") : "none");
      button.addEventListener("click", () => {
        this.sort = { key: field, up: sorted ? !this.sort.up : field !== "value" };
        this.resort = true;
        this.schedule();
      });
      head.append(button);
      return head;
    });
    const last = element("th", "wb-last");
    last.append(element("span", "wb-hidden", "Stop"));
    this.heads.replaceChildren(...heads, last);
    this.fields = wanted.map(([field]) => field);
    this.rows.replaceChildren();
    this.shown = [];
  }

  fill() {
    const high = this.scroll.clientHeight || 260, total = this.order.length;
    const from = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 4);
    const to = Math.min(total, from + Math.ceil(high / ROW) + 8);
    const focused = document.activeElement?.closest?.("tr");
    const focusedTrial = this.rows.contains(focused) ? Number(focused.dataset.trial) : null;
    if (!this.above) {
      this.above = element("tr", "wb-space");
      this.below = element("tr", "wb-space");
    }
    this.above.style.height = `${from * ROW}px`;
    this.below.style.height = `${(total - to) * ROW}px`;
    const { rank } = scale(this.board), best = this.board.header.best?.trial;
    this.made ??= new Map();
    const wanted = this.order.slice(from, to), keep = new Map(), lines = [];
    for (const trial of wanted) {
      const line = this.made.get(trial)?.fields === this.fields ? this.made.get(trial) : this.row(trial);
      this.update(line, this.board.trials.get(trial), rank, trial === best);
      keep.set(trial, line);
      lines.push(line.tr);
    }
    this.made = keep;
    const now = [this.above, ...lines, this.below], old = [...this.rows.children];
    if (now.length !== old.length || now.some((line, k) => line !== old[k])) {
      this.rows.replaceChildren(...now);
      if (focusedTrial !== null) keep.get(focusedTrial)?.button.focus({ preventScroll: true });
    }
    this.table.setAttribute("aria-rowcount", String(total + 1));
    const lit = this.board.trials.get(this.lit ?? best);
    set(this.foot, lit ? `${label(lit.number)}: ${lit.error || lit.reason || lit.state}` : "");
    this.scroll.hidden = total === 0;
    this.foot.hidden = total === 0;
  }

  row(trial) {
    const tr = element("tr"), cells = this.fields.map((field) => element("td", field === "number" || field === "state" ? "" : "wb-number"));
    tr.dataset.trial = trial;
    const swatch = element("span", "wb-swatch"), words = element("span");
    cells[0].append(swatch, words);
    const mark = element("span", "wb-small"), state = element("span");
    cells[1].append(mark, state);
    const button = element("button", "wb-button wb-little", "Stop"), last = element("td", "wb-last");
    button.type = "button";
    button.setAttribute("aria-label", `Stop ${label(trial)}`);
    button.addEventListener("click", () => this.askStop(trial));
    last.append(button);
    tr.append(...cells, last);
    tr.addEventListener("pointerenter", () => this.light_up(trial));
    tr.addEventListener("focusin", () => this.light_up(trial));
    return { fields: this.fields, tr, cells, swatch, words, mark, state, button };
  }

  update(line, row, rank, best) {
    const out = row.state === "stopped" || row.state === "failed";
    line.tr.className = `wb-row wb-is-${row.state}${best ? " wb-best" : ""}${row.number === this.lit ? " wb-lit" : ""}`;
    const tint = out ? "" : Number.isFinite(row.value) ? colour(rank(row.value), this.theme.dark) : "transparent";
    if (line.swatch.style.background !== tint) line.swatch.style.background = tint;
    set(line.words, label(row.number));
    if (line.mark.dataset.state !== row.state) {
      line.mark.dataset.state = row.state;
      line.mark.replaceChildren(icon(row.state));
    }
    set(line.state, row.state);
    line.cells[1].title = row.error || row.reason || "";
    this.fields.forEach((field, k) => {
      if (k > 1) set(line.cells[k], shown(field in row ? row[field] : row.configuration?.[field]));
    });
    const answer = this.board.answers.get(row.number);
    const over = ENDED.has(row.state);
    // Whoever pressed it by the keyboard stays in the table.
    if (over && document.activeElement === line.button) this.scroll.focus({ preventScroll: true });
    line.button.hidden = over;
    line.button.disabled = row.state === "stopping";
    set(line.button, row.state === "stopping" ? "Stopping" : "Stop");
    line.button.title = answer || "";
  }

  askStop(trial) {
    const done = () => (trial === null ? ENDED.has(this.board.header.state) || this.board.header.state === "stopping" : ["stopping", ...ENDED].includes(this.board.trials.get(trial)?.state));
    this.board.ask("stop", trial, done);
  }
}

// Sets text only where it differs, with a soft second part: rewriting equal text would end a person's selection.
function set(node, text, soft) {
  const key = soft === undefined ? text : `${text}\u0000${soft}`;
  if (node.wbText === key) return;
  node.wbText = key;
  node.textContent = text;
  if (soft) node.append(" ", element("span", "wb-soft", soft));
}

export default {
  initialize({ model }) {
    const board = boardOf(model);
    return () => boards.delete(board.model.get("uid"));
  },
  render({ model, el }) {
    const view = new View(boardOf(model), el);
    return () => view.dispose();
  },
};
