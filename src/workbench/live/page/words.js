// Words and colours. Names, reasons and values come from people and training code: they are text, never markup.

// As in the panel (frontend/src/chart/colours.ts).
const VIRIDIS = [
  "#440154", "#481a6c", "#472f7d", "#414487", "#39568c", "#31688e", "#2a788e", "#23888e",
  "#1f988b", "#22a884", "#35b779", "#54c568", "#7ad151", "#a5db36", "#d2e21b", "#fde725",
];

// A goal that is nan or infinite; JSON lacks those numbers, so they come as words.
function hasDiverged(value) {
  return ["nan", "inf", "-inf"].includes(value);
}

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

// A value's place between worse (0) and better (1); the worst tenth shares one end, so that one bad trial does not make
// all others look alike.
function scale(board) {
  const values = [...board.trials.values()].map((row) => row.value).filter(Number.isFinite).sort(compare);
  if (!values.length) return { rank: () => 0.5 };
  const last = values.length - 1, tenth = Math.floor(last / 10);
  const [worst, best] = board.header.goal?.mode !== "min" ? [values[tenth], values[last]] : [values[last - tenth], values[0]];
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
  "setting up": "M4.5 2.5h7M4.5 13.5h7M5 2.5c0 3.5 6 7.5 6 11M11 2.5c0 3.5-6 7.5-6 11", // an hourglass
  running: "M5.5 3.5v9l7-4.5z",
  paused: "M5.5 3.5v9M10.5 3.5v9",
  stopping: "M4.5 4.5h7v7h-7z",
  completed: "M3 8.5l3.2 3.2L13 5",
  stopped: "M4.5 4.5h7v7h-7z",
  failed: "M4 4l8 8M12 4l-8 8",
};

// A state in the name of a class: two words are joined.
const classed = (state) => state.replace(" ", "-");

function icon(state) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", `wb-icon wb-${classed(state)}`);
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", SHAPES[state] ?? SHAPES.waiting);
  svg.append(path);
  return svg;
}
