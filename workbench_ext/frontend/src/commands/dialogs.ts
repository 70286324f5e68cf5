/** Dialogs that ask the user. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

/** Ask for a longer text. Null if the user cancels. */
export async function askText(options: {
  title: string;
  label: string;
  text: string;
  okLabel: string;
  trans: TranslationBundle;
}): Promise<string | null> {
  const { title, label, text, okLabel, trans } = options;
  const body = new TextBody(label, text);
  const { button, value } = await showDialog({
    title,
    body,
    buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.okButton({ label: okLabel })],
    focusNodeSelector: 'textarea'
  });
  return button.accept ? (value ?? '') : null;
}

class TextBody extends Widget implements Dialog.IBodyWidget<string> {
  constructor(label: string, text: string) {
    super();
    this.addClass('wb-TextBody');
    this._area = document.createElement('textarea');
    this._area.className = 'jp-mod-styled';
    this._area.rows = 8;
    this._area.value = text;
    this._area.setAttribute('aria-label', label);
    // In a dialog, Enter accepts; in a text, it begins a line.
    this._area.addEventListener('keydown', event => {
      if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) {
        event.stopPropagation();
      }
    });
    this.node.append(this._area);
  }

  getValue(): string {
    return this._area.value;
  }

  private _area: HTMLTextAreaElement;
}

/** Ask for a few short texts until `read` accepts them. Null if the user cancels. */
export async function askFields<K extends string, T extends object>(options: {
  title: string;
  fields: Readonly<Record<K, { label: string; example: string }>>;
  /** The parsed text, or what is wrong with it. */
  read: (typed: Readonly<Record<K, string>>) => T | string;
  okLabel: string;
  trans: TranslationBundle;
}): Promise<T | null> {
  const { title, fields, read, okLabel, trans } = options;
  let typed: Record<string, string> = {};
  let wrong = '';
  for (;;) {
    const { button, value } = await showDialog({
      title,
      body: new FieldsBody(fields, typed, wrong),
      buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.okButton({ label: okLabel })],
      focusNodeSelector: 'input'
    });
    if (!button.accept || value === null) {
      return null;
    }
    const found = read(value as Record<K, string>);
    if (typeof found !== 'string') {
      return found;
    }
    typed = value;
    wrong = found;
  }
}

class FieldsBody extends Widget implements Dialog.IBodyWidget<Record<string, string>> {
  constructor(
    fields: Readonly<Record<string, { label: string; example: string }>>,
    typed: Readonly<Record<string, string>>,
    wrong: string
  ) {
    super();
    this.addClass('wb-FieldsBody');
    for (const [key, { label, example }] of Object.entries(fields)) {
      const line = document.createElement('label');
      const input = document.createElement('input');
      input.className = 'jp-mod-styled';
      input.placeholder = example;
      input.value = typed[key] ?? '';
      line.append(label, input);
      this.node.append(line);
      this._inputs.set(key, input);
    }
    if (wrong) {
      const said = document.createElement('p');
      said.className = 'wb-FieldsBody-wrong';
      said.setAttribute('role', 'alert');
      said.textContent = wrong;
      this.node.append(said);
    }
  }

  getValue(): Record<string, string> {
    return Object.fromEntries([...this._inputs].map(([key, { value }]) => [key, value]));
  }

  private _inputs = new Map<string, HTMLInputElement>();
}

/** Confirm something that is hard or impossible to undo. */
export async function confirmed(options: {
  title: string;
  body: string;
  okLabel: string;
  trans: TranslationBundle;
}): Promise<boolean> {
  const { button } = await showDialog({
    title: options.title,
    body: options.body,
    buttons: [
      Dialog.cancelButton({ label: options.trans.__('Cancel') }),
      Dialog.warnButton({ label: options.okLabel })
    ],
    defaultButton: 0
  });
  return button.accept;
}
