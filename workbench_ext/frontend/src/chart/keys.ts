/** Keyboard navigation through a picture's trials, the same in every picture. */

import { IChartContext } from '../experiment/context';

/**
 * Handle a key: up and down go through `order`, Space selects, Enter opens, Escape goes back. `look` gets the
 * highlighted trial. Returns whether the key was handled.
 */
export function trialKey(
  key: string,
  context: IChartContext,
  order: readonly number[],
  look: (trial: number | null) => void
): boolean {
  const { selection } = context;
  const trial = selection.hovered;
  const step = (by: number) => {
    const at = trial === null ? -1 : order.indexOf(trial);
    const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), order.length - 1);
    look(order[next] ?? null);
  };
  switch (key) {
    case 'ArrowDown':
      step(1);
      return true;
    case 'ArrowUp':
      step(-1);
      return true;
    case 'Home':
      look(order[0] ?? null);
      return true;
    case 'End':
      look(order[order.length - 1] ?? null);
      return true;
    case ' ':
      if (trial !== null) {
        selection.toggle(trial);
      }
      return true;
    case 'Enter':
      if (trial !== null) {
        context.openTrial(trial);
      }
      return true;
    case 'Escape':
      if (trial === null) {
        selection.clear();
      } else {
        look(null);
      }
      return true;
    default:
      return false;
  }
}
