/** Lines of a traceback, and which of them the user can change. Law: pure. */

export interface ITracebackLine {
  readonly text: string;
  /** Whether it is the line of the user's own code that led to the error. */
  readonly marked: boolean;
}

const FRAME = /^\s*File "(.+)", line \d+, in /;
/** Files of Python and of installed packages. */
const INSTALLED = /[\\/](site-packages|dist-packages|lib[\\/]python\d)/;

/** A traceback by line. The last frame that is in no installed package is marked, with its source line. */
export function tracebackLines(traceback: string): ITracebackLine[] {
  const lines = traceback.trimEnd().split('\n');
  let at = -1;
  lines.forEach((line, index) => {
    const file = FRAME.exec(line)?.[1];
    if (file !== undefined && !INSTALLED.test(file)) {
      at = index;
    }
  });
  const source = lines[at + 1];
  const hasSource = at >= 0 && source !== undefined && source.startsWith('    ') && !FRAME.test(source);
  return lines.map((text, index) => ({ text, marked: at >= 0 && (hasSource ? index === at + 1 : index === at) }));
}
