/** A Plotly figure that training code logged, without what makes a browser fetch an address.
 * Law: the author of a figure may be anybody, and must not learn who looks at it, and when. */

/** The last parts of names under which Plotly, or the map library in it, fetches a text as an address. */
const ADDRESS = /(?:^|[.\]])(source|geojson|style|url|tiles|sprite|glyphs)(?:\[-?\d*\])*$/i;
/** Paths below a map's style, where anything may be an address, and to one of a button's arguments: what it means depends
 * on the others. */
const UNKNOWN = /(?:^|[.\]])(?:style(?:\[-?\d*\])*\.|args2?(?:\[-?\d*\])+$)/i;
/** The arguments of a button or of a slider's step. */
const ARGUMENTS = /(?:^|[.\]])args2?$/i;
/** A style attribute as Plotly reads it in texts, and the values of it that cannot refer to an address. */
const STYLED = /style\s*=\s*(?:"([^"]*)"|'([^']*)')/gi;
const PLAIN = /^[\w\s:;#.,%-]*$/;

/** The figure `value`; `name` is the name under which it lies in a larger one. */
export function harmless<T>(value: T, name?: string): T;
export function harmless(value: unknown, name = ''): unknown {
  if (UNKNOWN.test(name)) {
    return undefined;
  }
  const kind = ADDRESS.exec(name)?.[1]?.toLowerCase();
  if (typeof value === 'string') {
    return kind ? named(kind, value) : unstyled(value);
  }
  if (Array.isArray(value)) {
    if (ARGUMENTS.test(name) && typeof value[0] === 'string' && value.length > 1) {
      return changed(value[0], value[1], value.slice(2));
    }
    return value.map((one: unknown) => harmless(one, name)).filter(one => one !== undefined);
  }
  if (value === null || typeof value !== 'object') {
    return value;
  }
  if (kind === 'style') {
    return undefined; // a map's style: all its sources are addresses
  }
  const kept = Object.entries(value).map(([key, one]) => [key, harmless(one as unknown, key)] as const);
  // Without its source, an image or a layer is nothing.
  const isGone = kept.some(([key, one]) => key === 'source' && one === undefined);
  return isGone ? undefined : Object.fromEntries(kept.filter(([, one]) => one !== undefined));
}

/** Arguments that give a path its new value; `rest` says in which traces. Plotly hides a button without arguments. */
function changed(path: string, value: unknown, rest: readonly unknown[]): unknown {
  const kept = harmless(value, path);
  return kept === undefined ? undefined : [path, kept, ...harmless(rest)];
}

function named(kind: string, value: string): string | undefined {
  if (kind === 'source') {
    return value.startsWith('data:image/') ? value : undefined;
  }
  // A map's style has a name such as carto-positron, and a font's is italic.
  return kind === 'style' && /^[a-z-]*$/.test(value) ? value : undefined;
}

function unstyled(value: string): string {
  return value.replace(STYLED, (whole: string, one?: string, other?: string) =>
    PLAIN.test(one ?? other ?? '') ? whole : ''
  );
}
