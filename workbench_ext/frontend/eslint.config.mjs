/** What JupyterLab's extensions are held to, with the rules that need types. Layout is Prettier's matter. */

import eslint from '@eslint/js';
import prettier from 'eslint-config-prettier';
import hooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  // Built, or generated from the server's description.
  { ignores: ['lib', 'node_modules', 'src/server/schema.d.ts'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['src/**/*.{ts,tsx}'],
    extends: [eslint.configs.recommended, ...tseslint.configs.recommendedTypeChecked, prettier],
    plugins: { 'react-hooks': hooks },
    languageOptions: { parserOptions: { project: './tsconfig.test.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      ...hooks.configs.recommended.rules,
      curly: ['error', 'all'],
      eqeqeq: 'error',
      'max-lines': ['error', 500],
      'prefer-arrow-callback': ['error', { allowNamedFunctions: true }],
      // A name that begins with an underscore says that it is not used.
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // Lumino's signals take a method and, after it, its `this`; TanStack's methods are functions.
      '@typescript-eslint/unbound-method': 'off',
      // Arguments of commands are JSON of any form: an object where a text is wanted finds nothing, and that is said.
      '@typescript-eslint/no-base-to-string': 'off',
      '@typescript-eslint/naming-convention': [
        'error',
        { selector: 'interface', format: ['PascalCase'], custom: { regex: '^I[A-Z]', match: true } }
      ]
    }
  }
);
