import { contentsPath } from './paths';

test.each([
  ['/srv/nb/a/toy.ipynb', '/srv/nb', 'a/toy.ipynb'],
  ['/srv/nb/toy.ipynb', '/srv/nb/', 'toy.ipynb'],
  ['/srv/nbx/toy.ipynb', '/srv/nb', null],
  ['/other/toy.ipynb', '/srv/nb', null],
  ['toy.ipynb', '/srv/nb', 'toy.ipynb'],
  ['/home/ada/notebooks/toy.ipynb', '~/notebooks', 'toy.ipynb'],
  ['/home/ada/toy.ipynb', '~', 'toy.ipynb'],
  ['/Users/ada/notebooks/a/toy.ipynb', '~/notebooks', 'a/toy.ipynb'],
  ['/home/ada/play/toy.ipynb', '~/notebooks', null],
  ['C:\\nb\\toy.ipynb', 'C:\\nb', 'toy.ipynb']
])('%s in %s is %s', (file, root, path) => {
  expect(contentsPath(file, root)).toBe(path);
});
