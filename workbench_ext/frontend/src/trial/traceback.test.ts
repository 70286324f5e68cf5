import { tracebackLines } from './traceback';

const marked = (text: string) =>
  tracebackLines(text)
    .filter(line => line.marked)
    .map(line => line.text.trim());

const DEEP = `Traceback (most recent call last):
  File "<digits@1>", line 5, in <module>
    loss = criterion(model(x), y)
           ^^^^^^^^^^^^^^^^^^^^^^
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1780, in _call_impl
    return forward_call(*args, **kwargs)
ValueError: Expected input batch_size (64) to match target batch_size (32).
`;

test('the last line of the user’s own code is marked, and no line of a package', () => {
  expect(marked(DEEP)).toEqual(['loss = criterion(model(x), y)']);
});

test('a frame without its source is marked itself', () => {
  expect(marked('Traceback:\n  File "gone.py", line 3, in train\nKeyError: 1')).toEqual([
    'File "gone.py", line 3, in train'
  ]);
});

test('nothing is marked where no frame is the user’s, and every line is kept', () => {
  const text = 'The process was killed.\nIts memory was 3 GB.';
  expect(marked(text)).toEqual([]);
  expect(tracebackLines(text).map(line => line.text)).toEqual(text.split('\n'));
});
