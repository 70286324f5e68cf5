/** Filters of rows: `lr < 0.01 state:running`. Law: pure; an invalid filter is reported, not guessed. */

/** One value of a row; null if the row has none. */
export type Cell = number | string | boolean | null | undefined;

/** A row's value in a column; the columns' names are a separate argument. */
export type Row = (column: string) => Cell;

export type Test = (row: Row) => boolean;

/** A filter, or its invalid word and the reason. */
export type Filter =
  | { readonly test: Test; readonly error: null }
  | { readonly test: null; readonly error: { readonly word: string; readonly why: 'column' | 'number' | 'value' } };

const OPERATOR = /^(<=|>=|==|!=|≤|≥|≠|<|>|=|:|~)/;
const TOKEN = /"([^"]*)"|'([^']*)'|(<=|>=|==|!=|≤|≥|≠|<|>|=|:|~)|[^\s<>=!:~≤≥≠"',]+|!/g;
const SAME: Readonly<Record<string, string>> = { '≤': '<=', '≥': '>=', '≠': '!=', '==': '=', '~': ':' };

/**
 * A filter over all columns. Words without an operator are searched in every column; `!` negates a word; `or` separates
 * alternatives.
 */
export function parse(text: string, columns: readonly string[]): Filter {
  // As it is written, or in other letters: `lr` and `LR` may both be columns.
  const lower = new Map([...columns].reverse().map(column => [column.toLowerCase(), column]));
  const named = (word: string) => (columns.includes(word) ? word : lower.get(word.toLowerCase()));
  const tokens = tokenize(text);
  const alternatives: Test[] = [];
  let parts: Test[] = [];
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at]!;
    if (!token.quoted && token.text.toLowerCase() === 'or') {
      alternatives.push(all(parts));
      parts = [];
      continue;
    }
    if (!token.quoted && token.text.toLowerCase() === 'and') {
      continue;
    }
    const denied = !token.quoted && token.text === '!';
    const word = denied ? tokens[++at] : token;
    if (!word) {
      return wrong('!', 'value');
    }
    const next = tokens[at + 1];
    if (word.operator || !next?.operator) {
      if (word.operator) {
        return wrong(word.text, 'column');
      }
      const found = anywhere(word.text, columns);
      parts.push(denied ? row => !found(row) : found);
      continue;
    }
    const column = named(word.text);
    const value = tokens[at + 2];
    if (column === undefined) {
      return wrong(word.text, 'column');
    }
    if (!value || value.operator) {
      return wrong(next.text, 'value');
    }
    const compare = comparison(next.text, value.text, value.quoted);
    if (compare === null) {
      return wrong(value.text, 'number');
    }
    parts.push(denied ? row => !compare(row(column)) : row => compare(row(column)));
    at += 2;
  }
  alternatives.push(all(parts));
  return {
    test: alternatives.length === 1 ? alternatives[0]! : row => alternatives.some(test => test(row)),
    error: null
  };
}

/** A filter of one column: `< 0.01`, `0.1..0.5`, `!= sgd`, or a part of its text. Null if it is not valid. */
export function columnTest(text: string): ((cell: Cell) => boolean) | null {
  const trimmed = text.trim();
  if (trimmed === '') {
    return () => true;
  }
  const operator = OPERATOR.exec(trimmed)?.[0];
  if (operator === undefined) {
    return comparison(range(trimmed) ? '=' : ':', trimmed, false);
  }
  const rest = trimmed.slice(operator.length).trim();
  return rest === '' ? () => true : comparison(operator, rest, false);
}

/** The test for an operator and a value; null if the operator needs a number and the value is not one. */
function comparison(given: string, value: string, quoted: boolean): ((cell: Cell) => boolean) | null {
  const operator = SAME[given] ?? given;
  if (operator === ':') {
    return cell => says(cell).toLowerCase().includes(value.toLowerCase());
  }
  const number = quoted ? NaN : numberOf(value);
  if (operator === '=' || operator === '!=') {
    const bounds = quoted ? null : range(value);
    const equal = (cell: Cell) => {
      if (bounds && typeof cell === 'number') {
        return cell >= bounds[0] && cell <= bounds[1];
      }
      return typeof cell === 'number' && !Number.isNaN(number)
        ? cell === number
        : says(cell).toLowerCase() === value.toLowerCase();
    };
    return operator === '=' ? equal : cell => !equal(cell);
  }
  if (Number.isNaN(number)) {
    return null;
  }
  const compares: Readonly<Record<string, (cell: number) => boolean>> = {
    '<': cell => cell < number,
    '<=': cell => cell <= number,
    '>': cell => cell > number,
    '>=': cell => cell >= number
  };
  const compare = compares[operator]!;
  return cell => typeof cell === 'number' && compare(cell);
}

/** A number as people type it, as Python prints it or as the panel shows it: `1e-3`, `inf`, `−∞`; NaN if it is none. */
function numberOf(text: string): number {
  const plain = text.toLowerCase().replaceAll('−', '-');
  const infinite = /^([+-]?)(inf|infinity|∞)$/.exec(plain);
  return infinite ? (infinite[1] === '-' ? -Infinity : Infinity) : Number(plain);
}

/** `0.1..0.5`, with either side left open. */
function range(text: string): [number, number] | null {
  const [low, high, more] = text.split('..');
  if (low === undefined || high === undefined || more !== undefined || (low === '' && high === '')) {
    return null;
  }
  const bounds: [number, number] = [low === '' ? -Infinity : numberOf(low), high === '' ? Infinity : numberOf(high)];
  return bounds.some(Number.isNaN) ? null : bounds;
}

function says(cell: Cell): string {
  return cell === null || cell === undefined ? '' : String(cell);
}

function anywhere(word: string, columns: readonly string[]): Test {
  const wanted = word.toLowerCase();
  return row => columns.some(column => says(row(column)).toLowerCase().includes(wanted));
}

function all(tests: readonly Test[]): Test {
  return row => tests.every(test => test(row));
}

function wrong(word: string, why: 'column' | 'number' | 'value'): Filter {
  return { test: null, error: { word, why } };
}

interface IToken {
  readonly text: string;
  readonly quoted: boolean;
  readonly operator: boolean;
}

function tokenize(text: string): IToken[] {
  return [...text.matchAll(TOKEN)].map(([whole, double, single, operator]) => ({
    text: double ?? single ?? whole,
    quoted: double !== undefined || single !== undefined,
    operator: operator !== undefined
  }));
}
