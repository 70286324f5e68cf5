// Plotly: from the Jupyter server, or from the kernel where the page has no such server; never from the network.

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
