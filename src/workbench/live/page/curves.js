// Curves, for Plotly to draw: a thousand trials by a thousand points cost some fifty traces of what pixels can show.

const DRAWN = 80000; // points drawn at most; beyond that every curve is thinned to what its pixels can show
const BINS = 24;

// Of each bucket its lowest and highest point, and both ends: what the pixels can show.
function thinned(curve, most) {
  const n = curve.x.length;
  if (n <= most) return curve;
  const x = [curve.x[0]], y = [curve.y[0]], buckets = Math.max(1, (most - 2) >> 1);
  for (let k = 0; k < buckets; k++) {
    const from = Math.max(1, Math.floor((k * n) / buckets)), to = Math.min(n - 1, Math.floor(((k + 1) * n) / buckets));
    let low = from, high = from;
    for (let i = from; i < to; i++) {
      if (!Number.isFinite(curve.y[i])) continue;
      if (curve.y[i] < curve.y[low] || !Number.isFinite(curve.y[low])) low = i;
      if (curve.y[i] > curve.y[high] || !Number.isFinite(curve.y[high])) high = i;
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

// The points between two gaps, which no line reaches: they are seen only if they are dots.
function alone(curve) {
  const gap = (i) => !Number.isFinite(curve.y[i]), x = [], y = [];
  for (let i = 0; i < curve.x.length; i++)
    if (!gap(i) && gap(i - 1) && gap(i + 1)) {
      x.push(curve.x[i]);
      y.push(curve.y[i]);
    }
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
    const wide = trial === best ? 1 : 0, dots = alone(curve);
    if (state === "stopped" || state === "failed") {
      put("out", 0, { color: theme.out, width: 1 }, trial, curve);
      if (dots.x.length) put("out.", 0, { color: theme.out, width: 0, dots: 3 }, trial, dots);
    } else if (state === "completed") {
      put(`done${bin}${wide}`, 2 + bin + 2 * wide, { color: tint, width: 2.4 + wide }, trial, curve);
      put(`done.${bin}${wide}`, 2 + bin + 2 * wide, { color: tint, width: 0, dots: 6 + wide }, trial, end);
      if (dots.x.length) put(`done..${bin}${wide}`, 2 + bin + 2 * wide, { color: tint, width: 0, dots: 4 }, trial, dots);
    } else {
      put(`live${bin}${wide}`, 1 + bin, { color: tint, width: 1.5 + wide }, trial, curve);
      if (state === "running" || curve.x.length === 1)
        put(`live.${bin}`, 1 + bin, { color: tint, width: 0, dots: 4.5 }, trial, end);
      if (dots.x.length) put(`live..${bin}`, 1 + bin, { color: tint, width: 0, dots: 3.5 }, trial, dots);
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
