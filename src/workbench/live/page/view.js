// The view. Law: drawn once per animation frame; a button never slips away under the pointer.

const ROW = 27; // height of a table row, as in live.css

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
    this.clock = setInterval(() => {
      this.words();
      if (this.board.header.setups && this.fields) this.fill(); // how long set-ups have taken so far
    }, 1000);
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
    // The JupyterLab extension says on the page's body that it listens; elsewhere the button is not shown.
    this.open = element("button", "wb-button wb-open", "Open page");
    this.open.type = "button";
    this.open.addEventListener("click", () =>
      document.dispatchEvent(new CustomEvent("workbench:open", { detail: { experiment: this.board.header.id } })),
    );
    const buttons = element("span", "wb-buttons");
    buttons.append(this.open, this.pause, this.stop);
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

  // -- drawing, once per animation frame, and half of the time at most ------------------------------------------

  schedule() {
    if (this.pending !== null || this.later !== null) return;
    const wait = (this.ended ?? 0) + this.cost - performance.now();
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
    // The output of an ended experiment may show its live view: there the figure is known.
    const isKept = this.root.closest(".jp-WorkbenchFinished") !== null;
    if (ENDED.has(this.board.header.state) && !isKept) this.leaving ??= setTimeout(() => this.board.send({ kind: "figure" }), 4000);
  }

  themed() {
    const style = getComputedStyle(this.root), read = (name) => style.getPropertyValue(name).trim();
    const [r, g, b] = (getComputedStyle(this.stage).backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
    const dark = 0.299 * r + 0.587 * g + 0.114 * b < 128;
    this.root.classList.toggle("wb-dark", dark);
    return { dark, text: read("--wb-text"), soft: read("--wb-soft"), out: dark ? "rgba(165,165,165,.45)" : "rgba(120,120,120,.45)", grid: dark ? "rgba(255,255,255,.1)" : "rgba(0,0,0,.09)", font: style.fontFamily };
  }

  words() {
    const { header } = this.board, state = header.state ?? "waiting";
    this.root.dataset.shows = header.id ?? "";
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
    const mean = best?.of ? `mean ${shown(best.of.mean)} ± ${shown(best.of.deviation)} of ${best.of.trials}` : "";
    set(this.fact.best.value, best ? shown(best.value) : "–", best ? [label(best.trial), mean].filter(Boolean).join(", ") : "");
    const { ended, of, share } = header.progress ?? { ended: 0, of: 0, share: null };
    set(this.fact.trials.value, String(ended), [`of ${of}`, header.setups].filter(Boolean).join(", "));
    set(this.fact.slots.value, header.slots ? String(header.slots.used ?? 0) : "–", header.slots ? `of ${header.slots.given}` : "");
    this.fact.slots.value.parentElement.hidden = ENDED.has(state);
    const now = Date.now() / 1000, since = header.started ? (header.ended ?? now) - header.started : null;
    const left = header.seconds_left === null || header.seconds_left === undefined || ENDED.has(state) ? null : header.seconds_left - (now - header.told);
    set(this.fact.time.value, since === null ? "–" : duration(since), left === null ? "" : left > 1 ? `about ${duration(left)} left` : "nearly done");
    this.bar.hidden = share === null || ENDED.has(state);
    this.done.style.width = `${100 * (share ?? 0)}%`;
    this.bar.setAttribute("aria-valuenow", String(Math.round(100 * (share ?? 0))));
    this.bar.setAttribute("aria-label", "Trials ended");

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
  // not know where; whoever owns the document (the JupyterLab extension) may do it on this event. It comes from the page's
  // document, because a notebook takes cells that are far out of sight from the page.
  leave(bundle) {
    document.dispatchEvent(new CustomEvent("workbench:figure", { detail: { view: this.root, bundle, experiment: this.board.header.id } }));
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
    line.tr.className = `wb-row wb-is-${classed(row.state)}${best ? " wb-best" : ""}${row.number === this.lit ? " wb-lit" : ""}`;
    const tint = out ? "" : Number.isFinite(row.value) ? colour(rank(row.value), this.theme.dark) : "transparent";
    if (line.swatch.style.background !== tint) line.swatch.style.background = tint;
    set(line.words, label(row.number));
    if (line.mark.dataset.state !== row.state) {
      line.mark.dataset.state = row.state;
      line.mark.replaceChildren(icon(row.state));
    }
    const setup = row.state === "setting up" && row.since ? `for ${duration(Date.now() / 1000 - row.since)}` : "";
    set(line.state, row.state, setup);
    line.cells[1].title = row.error || row.reason || "";
    this.fields.forEach((field, k) => {
      const value = field in row ? row[field] : row.configuration?.[field];
      if (k > 1) set(line.cells[k], field === "value" && hasDiverged(value) ? "diverged" : shown(value));
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
    const uid = boardOf(model).model.get("uid");
    // The saved output of an ended experiment shows this view where the page has it, and the figure elsewhere.
    const views = (globalThis[Symbol.for("workbench.views")] ??= new Set());
    views.add(uid);
    document.dispatchEvent(new CustomEvent("workbench:view"));
    return () => {
      views.delete(uid);
      boards.delete(uid);
    };
  },
  render({ model, el }) {
    const view = new View(boardOf(model), el);
    return () => view.dispose();
  },
};
