/** A read-only drive with recorded notebooks. Law: it writes nothing into the user's folders. */

import { Contents, ServerConnection } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

import { Api, IRef, experimentPath } from '../server/api';

/** The version of the notebook: the executed cells, the saved file, or the open document with its unsaved edits. */
export type Which = 'executed' | 'file' | 'document';

/** The modification time of such a notebook: JupyterLab requires one, and compares it only when saving. */
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

  /** The path of a notebook; `title` is the title of its tab. */
  path({ store, experiment }: IRef, which: Which, title: string): string {
    // A slash or a colon in a title would change the path.
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

  /** The parts of a path. A path with three parts belongs to the default store: earlier versions made these. */
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
