/** The server's stores, and the one beside the active notebook. Law: it does not depend on the DOM; it fetches only
 * while shown. */

import { TranslationBundle } from '@jupyterlab/translation';
import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import {
  Answer,
  Api,
  ApiError,
  ICluster,
  IExperiment,
  IExperimentAnswer,
  IRef,
  IStore,
  IStoreInfo,
  experimentPath
} from '../server/api';
import { ExperimentsModel } from './experiments';
import { Live } from '../server/live';
import { Followed } from './resources';

/** Milliseconds between two queries for the list, and the longest pause after the server did not answer. */
const INTERVAL = 5000;
const LONGEST = 15000;

/** Milliseconds between two queries. Counting bytes on a disk is not free. */
const CLUSTER_INTERVAL = 2000;
const DISK_INTERVAL = 20000;

/** One store, and its models. */
export class StoreModel {
  constructor(info: IStoreInfo, api: Api, live: Live) {
    this.info = info;
    this.api = api.of(info.id);
    this.experiments = new ExperimentsModel(this.api, live);
    this.cluster = new Followed<ICluster>(this.api, 'cluster', CLUSTER_INTERVAL);
    this.disk = new Followed<IStore>(this.api, 'store', DISK_INTERVAL);
  }

  /** The server's last line about it. */
  info: IStoreInfo;
  readonly api: Api;
  readonly experiments: ExperimentsModel;
  readonly cluster: Followed<ICluster>;
  readonly disk: Followed<IStore>;

  get id(): string {
    return this.info.id;
  }

  /** `notebooks/`, for display; `/` is the server's own folder. */
  get label(): string {
    return `${this.info.folder}/`;
  }

  dispose(): void {
    this.experiments.dispose();
    this.cluster.dispose();
    this.disk.dispose();
  }
}

/** A reference to a store: its id, and its folder, in case the server no longer knows the id. */
export interface IWhere {
  readonly store?: string | null;
  readonly folder?: string | null;
}

export class Stores {
  constructor(
    readonly api: Api,
    private _live: Live,
    private _trans: TranslationBundle
  ) {
    this._poll = new Poll({
      name: 'workbench:stores',
      auto: false,
      factory: () => this.refresh(),
      frequency: { interval: INTERVAL, backoff: 2, max: LONGEST },
      standby: () => (this._watched ? 'when-hidden' : true)
    });
  }

  /** The list, its order, or data of a store changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The experiments of one of the stores changed. */
  get experimentsChanged(): ISignal<this, StoreModel> {
    return this._experimentsChanged;
  }

  /** The default one first; null until the server answered once. */
  get all(): readonly StoreModel[] | null {
    return this._all;
  }

  /** Those to show: the one beside the active notebook first, then the default one, then by folder. At least one. */
  get shown(): readonly StoreModel[] {
    const [first, ...others] = this._all ?? [];
    if (!first) {
      return [];
    }
    const there = [first, ...others.sort(byFolder)].filter(({ id, info }) => info.exists || id === this._beside);
    const beside = there.filter(({ id }) => id === this._beside);
    const rest = there.filter(({ id }) => id !== this._beside);
    return there.length > 0 ? [...beside, ...rest] : [first];
  }

  /** The store to use if none is given: the one beside the active notebook, or else the default one. */
  get current(): StoreModel | null {
    return this.shown[0] ?? null;
  }

  /** The id of the store beside the active notebook; null if there is none. */
  get beside(): string | null {
    return this._beside;
  }

  /** Why the list is missing or out of date. */
  get error(): ApiError | null {
    return this._error;
  }

  get(id: string): StoreModel | undefined {
    return this._all?.find(store => store.id === id);
  }

  /** An experiment's line of its store's list. */
  row({ store, experiment }: IRef): IExperiment | undefined {
    return this.get(store)?.experiments.get(experiment);
  }

  /** Whether the stores are shown. Nothing is fetched while they are not. */
  set watched(watched: boolean) {
    if (watched !== this._watched) {
      this._watched = watched;
      void (watched ? this._poll.refresh() : this._poll.stop());
    }
  }

  /** The active notebook's path as in the contents API; null if there is none. */
  set notebook(path: string | null) {
    if (path !== this._notebook) {
      this._notebook = path;
      void this.refresh();
    }
  }

  /** Fetch the list now, even if hidden. */
  async refresh(): Promise<void> {
    const turn = ++this._turn;
    try {
      const path = this._notebook;
      // Queried first: the server may discover the store by it. A path that it refuses has no store to show.
      const beside = path === null ? null : await this._of({ path }).catch(unreachable);
      const { stores } = await this.api.get<Answer<'stores'>>('stores');
      // Two queries may be in flight: ignore the older answer.
      if (turn >= this._taken) {
        this._taken = turn;
        this._take(stores, beside?.id ?? null);
      }
    } catch (error) {
      this._error = error instanceof ApiError ? error : new ApiError(0, String(error));
      this._changed.emit();
    }
  }

  /** The store of an experiment that a page or a command refers to. Rejects with the reason if it is not shown. */
  async find(experiment: string, { store, folder }: IWhere = {}): Promise<StoreModel> {
    if (this._all === null) {
      await this.refresh();
    }
    if (store && !this.get(store)) {
      // A restarted server discovers a store again by the path of a notebook beside it.
      await this._of({ path: `${folder ?? ''}/-` }).catch(unreachable);
      await this.refresh();
    }
    const path = this._notebook;
    const info = store ? null : await this._of({ experiment, path }).catch(() => this._of({ experiment }));
    if (info && !this.get(info.id)) {
      await this.refresh();
    }
    // If no store has the experiment, query the default one: its error lists what it has instead.
    const found = store ? this.get(store) : info ? this.get(info.id) : this.current;
    if (!found) {
      throw this._error ?? new ApiError(404, this._trans.__('The store in %1 no longer exists.', `${folder ?? ''}/`));
    }
    return found;
  }

  /** The line of an experiment, by its name or its id. */
  async named(store: StoreModel, name: string): Promise<IExperiment> {
    const { experiment } = await store.api.get<IExperimentAnswer>(experimentPath(name));
    return { ...experiment, store: store.id };
  }

  private async _of(query: { path?: string | null; experiment?: string }): Promise<IStoreInfo | null> {
    return (await this.api.get<Answer<'storeOf'>>('stores/of', query)).store;
  }

  private _take(infos: readonly IStoreInfo[], beside: string | null): void {
    const text = JSON.stringify([infos, beside]);
    const known = new Map(this._all?.map(store => [store.id, store]));
    const was = this._error;
    this._error = null;
    if (text === this._text && was === null) {
      return;
    }
    this._text = text;
    this._all = infos.map(info => {
      const store = known.get(info.id) ?? this._made(info);
      known.delete(info.id);
      store.info = info;
      return store;
    });
    known.forEach(gone => gone.dispose());
    const isOther = beside !== this._beside;
    this._beside = beside;
    this._changed.emit();
    // Notifications about the notebook's experiments need their states, even while the list is hidden.
    if (this.current?.experiments.experiments === null || isOther) {
      void this.current?.experiments.refresh();
    }
  }

  private _made(info: IStoreInfo): StoreModel {
    const store = new StoreModel(info, this.api, this._live);
    store.experiments.changed.connect(() => this._experimentsChanged.emit(store));
    return store;
  }

  private _all: readonly StoreModel[] | null = null;
  private _beside: string | null = null;
  private _changed = new Signal<this, void>(this);
  private _error: ApiError | null = null;
  private _experimentsChanged = new Signal<this, StoreModel>(this);
  private _notebook: string | null = null;
  private _poll: Poll;
  private _taken = 0;
  private _text = '';
  private _turn = 0;
  private _watched = false;
}

function byFolder(one: StoreModel, other: StoreModel): number {
  return one.info.folder.localeCompare(other.info.folder);
}

/** Undefined if the server refused; other errors are reported. */
function unreachable(error: unknown): null {
  if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
    return null;
  }
  throw error;
}

/** A key for an experiment and its store, for lists of selected ones. */
export function keyOf({ store, experiment }: IRef): string {
  return `${store} ${experiment}`;
}

/** The inverse of `keyOf`. */
export function refOf(key: string): IRef {
  const [store, experiment] = key.split(' ') as [string, string];
  return { store, experiment };
}
