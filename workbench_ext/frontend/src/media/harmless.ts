/** A Plotly figure that training code logged, without what makes a browser fetch an address.
 * Law: the author of a figure may be anybody, and must not learn who looks at it, and when. */

/** The last parts of names under which Plotly, or the map library in it, fetches a text as an address. */
const ADDRESS = /(?:^|[.\]])(source|geojson|style|url|tiles|sprite|glyphs)(?:\[\d+\])*$/i;
/** A style attribute as Plotly reads it in texts, and the values of it that cannot refer to an address. */
const STYLED = /style\s*=\s*(?:"([^"]*)"|'([^']*)')/gi;
const PLAIN = /^[\w\s:;#.,%-]*$/;

/** The figure `value`; `name` is the name under which it lies in a larger one. */
export function harmless<T>(value: T, name?: string): T;
export function harmless(value: unknown, name = ''): unknown {
  const kind = ADDRESS.exec(name)?.[1]?.toLowerCase();
  if (typeof value === 'string') {
    return kind ? named(kind, value) : unstyled(value);
  }
  if (Array.isArray(value)) {
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
