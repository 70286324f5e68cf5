/** The plugin with the page of the machine's slots. It asks only while the page is on the screen. */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, ReactWidget, WidgetTracker } from '@jupyterlab/apputils';
import { Message } from '@lumino/messaging';
import { createElement } from 'react';

import { Boundary } from '../boundary';
import { experimentsIcon } from '../icons';
import { IQueue } from '../server/api';
import { Followed } from '../stores/resources';
import { IWorkbench } from '../tokens';
import { IQueueProps, QueueView } from './view';
import { refused } from '../notices';

/** Milliseconds between two queries; each measures for a fifth of a second. */
const INTERVAL = 2000;

class QueueDocument extends MainAreaWidget<ReactWidget> {
  constructor(
    private _queue: Followed<IQueue>,
    props: IQueueProps
  ) {
    const { trans } = props;
    const view = createElement(QueueView, { ...props, queue: _queue });
    super({
      content: ReactWidget.create(createElement(Boundary, { what: trans.__('The queue'), trans, children: view }))
    });
    this.id = 'workbench-queue';
    this.addClass('wb-Document');
    this.toolbar.hide();
    this.title.icon = experimentsIcon;
    this.title.label = trans.__('Queue');
    this.title.caption = trans.__('Who trains in which slot of this machine, and who waits');
    this.title.closable = true;
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._queue.dispose();
      super.dispose();
    }
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._queue.watched = this.isVisible;
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._queue.watched = this.isVisible;
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._queue.watched = false;
  }

  protected onBeforeDetach(message: Message): void {
    super.onBeforeDetach(message);
    this._queue.watched = false;
  }
}

export const queue: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:queue',
  description: 'The page of the machine’s slots: who trains in them, and who waits',
  autoStart: true,
  requires: [IWorkbench],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (
    { commands, shell }: JupyterFrontEnd,
    { api, stores, trans }: IWorkbench,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ) => {
    const tracker = new WidgetTracker<QueueDocument>({ namespace: 'workbench-queue' });
    const made = () => {
      const followed = new Followed<IQueue>(api, 'queue', INTERVAL);
      return new QueueDocument(followed, {
        trans,
        opener: (root, experiment) => {
          const store = stores.all?.find(({ info }) => info.root === root);
          return store ? () => void commands.execute('workbench:open', { experiment, store: store.id }) : null;
        },
        use: (slot, used) =>
          void api
            .post(`slots/${encodeURIComponent(slot)}`, { used })
            .catch(refused)
            .then(() => followed.refresh())
      });
    };
    commands.addCommand('workbench:queue', {
      label: trans.__('Show the Queue'),
      caption: trans.__('Who trains in which slot of this machine, and who waits'),
      execute: async () => {
        let document = tracker.currentWidget ?? tracker.find(() => true);
        if (!document) {
          document = made();
          await tracker.add(document);
          shell.add(document, 'main', { type: 'Workbench' });
        }
        shell.activateById(document.id);
        return document;
      }
    });
    palette?.addItem({ command: 'workbench:queue', category: trans.__('Workbench') });
    void restorer?.restore(tracker, { command: 'workbench:queue', name: () => 'queue' });
  }
};
