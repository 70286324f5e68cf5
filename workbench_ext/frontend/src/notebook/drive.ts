/** Notebooks as they were, as a drive of their own. Law: only read; nothing in the person's folders is written. */

import { Contents, ServerConnection } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

import { Api, IRef, experimentPath } from '../server/api';

/** Which notebook is meant: the cells that were executed, the saved file, or the open document with its unsaved edits. */
export type Which = 'executed' | 'file' | 'document';

/** When such a notebook was changed last: JupyterLab wants a time, and compares it when it saves, which it never does. */
const BEGINNING = new Date(0).toISOString();

export class SnapshotDrive implements Contents.IDrive {
  constructor(private _api: Api) {}

  readonly name = 'Workbench';

  get serverSettings(): ServerConnection.ISettings {
    return this._api.settings;
  }

  get fileChanged(): ISignal<this, Contents.IChangedArgs> {
    return this._fileChanged;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Where a notebook is found; `title` is what its tab says. */
  path({ store, experiment }: IRef, which: Which, title: string): string {
    // A slash or a colon in a title would make another path of it.
    return `${this.name}:${store}/${experiment}/${which}/${title.replace(/[/:]/g, '-')}.ipynb`;
  }

  async get(localPath: string, options?: Contents.IFetchOptions): Promise<Contents.IModel> {
    const { api, experiment, which, file } = this._parts(localPath);
    const model = {
      name: file ?? localPath,
      path: localPath,
      type: file ? 'notebook' : 'directory',
      writable: false,
      created: BEGINNING,
      last_modified: BEGINNING,
      mimetype: '',
      format: null,
      content: null
    };
    if (!file) {
      return options?.content === false ? model : { ...model, format: 'json', content: [] };
    }
    if (options?.content === false) {
      return model;
    }
    const content = await api.get<unknown>(experimentPath(experiment, 'notebook'), { which });
    return { ...model, format: 'json', content };
  }

  getDownloadUrl(localPath: string): Promise<string> {
    const { api, experiment, which } = this._parts(localPath);
    return Promise.resolve(api.url(experimentPath(experiment, 'notebook'), { which }));
  }

  listCheckpoints(): Promise<Contents.ICheckpointModel[]> {
    return Promise.resolve([]);
  }

  newUntitled = refuse;
  delete = refuse;
  rename = refuse;
  save = refuse;
  copy = refuse;
  createCheckpoint = refuse;
  restoreCheckpoint = refuse;
  deleteCheckpoint = refuse;

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  /** What a path names. One of three parts is of the default store: earlier versions made such. */
  private _parts(localPath: string): {
    api: Api;
    experiment: string;
    which: string | undefined;
    file: string | undefined;
  } {
    const parts = localPath.split('/');
    const isWhole = parts.length > 3;
    const [experiment, which, file] = isWhole ? parts.slice(1) : parts;
    const api = isWhole ? this._api.of(parts[0]!) : this._api;
    return { api, experiment: experiment!, which, file: file?.endsWith('.ipynb') ? file : undefined };
  }

  private _fileChanged = new Signal<this, Contents.IChangedArgs>(this);
  private _isDisposed = false;
}

function refuse(): Promise<never> {
  return Promise.reject(
    new Error('This notebook is as it was and can only be read. Copy its cells to a notebook of yours.')
  );
}
