/** What this extension tells in JupyterLab's notifications. Law: a toast goes by itself, and says a thing once; the
 * notification centre keeps it. */

import { Notification } from '@jupyterlab/apputils';

type Kind = 'success' | 'info' | 'warning' | 'error';

/** Milliseconds for which a toast is shown, unless told otherwise. */
const SHOWN: Readonly<Record<Kind, number>> = { success: 5000, info: 6000, warning: 10_000, error: 15_000 };

/** actions: its buttons. replaces: the id of an earlier one, in whose place it comes. isQuiet: only the notification
 * centre gets it, since the user sees it elsewhere. */
export interface INotice {
  readonly actions?: Notification.IAction[];
  readonly forMs?: number;
  readonly replaces?: string;
  readonly isQuiet?: boolean;
}

/** Tell the user; the same again takes the place of the one before. The result is the notification's id. */
export function tell(kind: Kind, message: string, notice: INotice = {}): string {
  const { actions, forMs = SHOWN[kind], replaces, isQuiet } = notice;
  for (const { id, message: before, type } of Notification.manager.notifications) {
    if (id === replaces || (before === message && type === kind)) {
      Notification.dismiss(id);
    }
  }
  return Notification.emit(message, kind, { autoClose: isQuiet ? 0 : forMs, ...(actions ? { actions } : {}) });
}

/** Say why something was not done. */
export function refused(error: unknown): void {
  tell('error', error instanceof Error ? error.message : String(error));
}
