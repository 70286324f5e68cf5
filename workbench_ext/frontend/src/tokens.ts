/** What our plugins share. */

import { IThemeManager, WidgetTracker } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';

import { Api } from './server/api';
import { ExperimentDocument } from './experiment/document';
import { Live } from './server/live';
import { Requests } from './server/requests';
import { Settings } from './settings';
import { Picks } from './sidebar/picks';
import { Stores } from './stores/stores';

export interface IWorkbench {
  /** The API without a store, or for the default one. */
  readonly api: Api;
  readonly live: Live;
  readonly trans: TranslationBundle;
  readonly themes: IThemeManager | null;
  /** The stores, each with its experiments. */
  readonly stores: Stores;
  /** The sidebar's selection, as keys of `keyOf`. */
  readonly picks: Picks;
  readonly requests: Requests;
  readonly settings: Settings;
  /** The open pages. */
  readonly documents: WidgetTracker<ExperimentDocument>;
}

export const IWorkbench = new Token<IWorkbench>(
  'workbench-ext:IWorkbench',
  'The one connection to the server that all parts of Workbench share'
);
