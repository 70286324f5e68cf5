// What the page knows of one experiment, shared by all its views. Law: it shows what the kernel read from the store, and
// asks; it decides nothing. The files of this folder are one module, put together in order by live.py.

const ENDED = new Set(["completed", "stopped", "failed"]);
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
