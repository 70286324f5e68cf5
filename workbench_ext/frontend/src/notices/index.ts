/** What this extension tells. Law: it covers nothing and goes by itself; the notification centre keeps it. It is shown in
 * a strip above the status bar (strip.tsx), and as JupyterLab's toast where the page has no place for the strip. */

import { Notification } from '@jupyterlab/apputils';

import { Board, Kind } from './board';

/** Milliseconds for which one is shown, unless told otherwise. */
const SHOWN: Readonly<Record<Kind, number>> = { success: 5000, info: 6000, warning: 10_000, error: 15_000 };

/** actions: its buttons. replaces: the id of an earlier one, in whose place it comes. isQuiet: only the notification
 * centre gets it, since the user sees it elsewhere. */
export interface INotice {
  readonly actions?: Notification.IAction[];
  readonly forMs?: number;
  readonly replaces?: string;
  readonly isQuiet?: boolean;
}

/** The page's board; null while nothing shows it. */
let board: Board | null = null;

/** From now on notices are shown on this board; null: as toasts. */
export function showOn(next: Board | null): void {
  board = next;
}

/** Tell the user; the same again takes the place of the one before, unless that has buttons: they may be about something
 * else, which could then no longer be undone. The result is the notification's id. */
export function tell(kind: Kind, message: string, notice: INotice = {}): string {
  const { actions = [], forMs = SHOWN[kind], replaces, isQuiet } = notice;
  for (const { id, message: before, type, options } of Notification.manager.notifications) {
    if (id === replaces || (before === message && type === kind && !options.actions?.length)) {
      dismiss(id);
    }
  }
  const isToast = board === null && !isQuiet;
  const id = Notification.emit(message, kind, { autoClose: isToast ? forMs : 0, actions });
  if (!isQuiet) {
    board?.show({ id, kind, message, actions }, forMs);
  }
  return id;
}

/** Take a notice back, also from the notification centre. */
export function dismiss(id: string): void {
  Notification.dismiss(id);
  board?.drop(id);
}

/** Say why something was not done. */
export function refused(error: unknown): void {
  tell('error', error instanceof Error ? error.message : String(error));
}
