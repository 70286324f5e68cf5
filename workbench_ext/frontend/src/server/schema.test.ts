/** @jest-environment node */

import { execFileSync } from 'child_process';
import * as path from 'path';

test('the types of what is sent are those of the description: else run `jlpm generate`', () => {
  const root = path.join(__dirname, '..', '..');
  const { generate } = jest.requireActual<{ scripts: { generate: string } }>('../../package.json').scripts;
  const [, ...options] = generate.split(' ');
  const tool = path.join(root, 'node_modules', 'openapi-typescript', 'bin', 'cli.js');
  execFileSync(process.execPath, [tool, ...options, '--check'], { cwd: root, stdio: 'pipe' });
}, 60_000);
