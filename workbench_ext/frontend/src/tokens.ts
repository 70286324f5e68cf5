/** What our plugins share. */

import { IThemeManager, WidgetTracker } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';

import { Api } from './api';
import { ExperimentDocument } from './document';
import { ExperimentsModel } from './experiments';
import { Live } from './live';
import { Requests } from './requests';
import { Settings } from './settings';
import { Picks } from './sidebar/picks';

export interface IWorkbench {
  readonly api: Api;
  readonly live: Live;
  readonly trans: TranslationBundle;
  readonly themes: IThemeManager | null;
  /** The list of experiments. */
  readonly experiments: ExperimentsModel;
  /** What is picked in the sidebar. */
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
