import { harmless } from './harmless';

const WHERE = 'https://evil.example/x.png';
const INLINE = 'data:image/png;base64,AAAA';

test('only images whose bytes are in the figure are drawn', () => {
  const images = [{ source: WHERE }, { source: INLINE, x: 1 }, { source: '/lab' }, { source: '//evil.example' }];
  const layout = { images, template: { layout: { images } }, title: { text: 'kept' } };
  const kept = [{ source: INLINE, x: 1 }];
  expect(harmless({ data: [], layout })).toEqual({
    data: [],
    layout: { images: kept, template: { layout: { images: kept } }, title: { text: 'kept' } }
  });
});

test('maps have no style, layer or shape from an address', () => {
  const layers = [
    { sourcetype: 'raster', source: [WHERE] },
    { sourcetype: 'vector', source: WHERE },
    { sourcetype: 'geojson', source: { type: 'Point', coordinates: [1, 2] } }
  ];
  const own = { version: 8, sources: { a: { type: 'raster', tiles: [WHERE] } }, layers: [] };
  const found = harmless({
    data: [{ type: 'choroplethmap', geojson: WHERE, z: [1] }],
    layout: {
      mapbox: { style: WHERE, layers },
      mapbox2: { style: 'mapbox://styles/a/b' },
      map: { style: own },
      map2: { style: 'carto-positron' }
    }
  });
  expect(JSON.stringify(found)).not.toMatch(/evil|mapbox:/);
  expect(found.data).toEqual([{ type: 'choroplethmap', z: [1] }]);
  expect(found.layout.map2).toEqual({ style: 'carto-positron' });
  expect(found.layout.mapbox.layers).toContainEqual(layers[2]);
});

test('buttons bring no address either', () => {
  const args = [{ 'images[0].source': WHERE, 'map.style': WHERE, visible: [true] }, { images: [{ source: WHERE }] }];
  expect(JSON.stringify(harmless({ layout: { updatemenus: [{ buttons: [{ args }] }] } }))).not.toContain('evil');
});

test.each([
  ['relayout', ['images[0].source', WHERE]],
  ['relayout', ['images[-1].source', WHERE]],
  ['relayout', ['images', [{ source: WHERE }]]],
  ['relayout', ['template.layout.images[0]', { source: WHERE }]],
  ['relayout', ['map.style', WHERE]],
  ['relayout', ['map.style', { version: 8, sources: { a: { type: 'geojson', data: WHERE } } }]],
  ['relayout', ['map.style.sources.a.data', WHERE]],
  ['relayout', [{ 'map.style.sources.a.data': WHERE }]],
  ['restyle', ['geojson', WHERE]],
  ['restyle', ['geojson', [WHERE, WHERE], [0, 1]]],
  ['restyle', ['geojson[]', WHERE]],
  ['relayout', ['updatemenus[0].buttons[0].args', ['images[0].source', WHERE]]],
  ['relayout', ['updatemenus[0].buttons[0].args[1]', WHERE]],
  ['relayout', [{ 'updatemenus[0].buttons[0].args2[1]': WHERE }]],
  ['update', [{ geojson: [WHERE] }, { 'images[0].source': WHERE }]],
  ['animate', [[{ data: [{ geojson: WHERE }], layout: { images: [{ source: WHERE }] } }]]]
])('no button and no slider brings one by %s with %j', (method, args) => {
  const layout = {
    updatemenus: [{ buttons: [{ method, args, args2: args }] }],
    sliders: [{ steps: [{ method, args }] }]
  };
  expect(JSON.stringify(harmless({ layout }))).not.toContain('evil');
});

test('buttons and sliders keep what names no address', () => {
  const steps = [
    { method: 'restyle', args: ['visible', [true, false], [0, 1]] },
    { method: 'restyle', args: ['z', [[[1, 2]]]], args2: ['marker.color', 'red'] },
    { method: 'relayout', args: ['title.text', 'a'] },
    { method: 'relayout', args: ['images[0].source', INLINE] },
    { method: 'relayout', args: ['map.style', 'carto-positron'] },
    { method: 'relayout', args: ['font.style', 'italic'] },
    { method: 'update', args: [{ visible: [true] }, { 'title.text': 'b' }] },
    { method: 'animate', args: [['frame'], { mode: 'immediate', frame: { duration: 0 } }] },
    { method: 'animate', args: ['group'] },
    { method: 'animate', args: [null, { fromcurrent: true }] }
  ];
  const layout = { updatemenus: [{ buttons: steps }], sliders: [{ steps }] };
  expect(harmless({ data: [], layout })).toEqual({ data: [], layout });
});

test('texts keep styles that refer to nothing', () => {
  const plain = `<span style="color: #fff; font-size:12px">a</span> <a href="${WHERE}">b</a>`;
  const styled = [`url(${WHERE})`, 'u\\72l(x)', '&#117;rl(x)'].map(text => `<span style='cursor:${text}'>a</span>`);
  expect(harmless({ text: [plain, ...styled] })).toEqual({ text: [plain, ...styled.map(() => '<span >a</span>')] });
});

test('what names no address stays as it is', () => {
  const figure = {
    data: [
      { type: 'sankey', link: { source: [0, 1], target: [1, 2], value: [3, 4] } },
      { type: 'image', source: INLINE },
      { x: [1, null, 'a'], y: { bdata: 'AAAA', dtype: 'f8' }, marker: { color: 'red' } }
    ],
    layout: { font: { style: 'italic' }, xaxis: { title: { text: WHERE } } }
  };
  expect(harmless(figure)).toEqual(figure);
});
