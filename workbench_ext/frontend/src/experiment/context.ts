/** What every view of a page is given. Law: interfaces only. */

import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ISignal } from '@lumino/signaling';
import { ComponentType } from 'react';

import { Api } from '../server/api';
import { Live } from '../server/live';
import { ExperimentModel } from './experiment';
import { IPlotly } from '../notebook/plotly';
import { Selection } from './selection';
import { ViewState } from '../state';

/** The context of every page. */
export interface IPageContext {
  /** The API for the page's store. */
  readonly api: Api;
  /** Every user-visible string goes through `trans.__()` or `trans._n()`. */
  readonly trans: TranslationBundle;
  /** `notebooks/`, the folder of its store; empty where there was only one when the page was opened. */
  readonly where: string;
  readonly commands: CommandRegistry;
  /** What the server announces. */
  readonly live: Live;
  /** The theme changed; code that draws on a canvas must read its colours again. */
  readonly themeChanged: ISignal<unknown, void>;
  /** Show a comparison of two or more in a new page. References as users write them: `digits@2/t0007:27`. */
  openCompare(...refs: readonly string[]): void;
  /** Plotly, loaded once from our own server. */
  plotly(): Promise<IPlotly>;
}

/** What a chart is given: the trials that it shows, by number, and what happens when one is chosen. */
export interface IChartContext {
  readonly trans: TranslationBundle;
  readonly experiment: Pick<ExperimentModel, 'goal' | 'trials'>;
  readonly selection: Selection;
  /** Show a trial's page. */
  openTrial(trial: number): void;
  /** Open a trial's menu at a place of the window. */
  openMenu(trial: number, left: number, top: number): void;
}

/** What the views of an experiment's page are given. They share its model and its selection. */
export interface IContext extends IPageContext, IChartContext {
  readonly trans: TranslationBundle;
  readonly experiment: ExperimentModel;
  /** Choices kept with the workspace for this experiment. Prefix keys with the view's id. */
  readonly state: ViewState;
}

export type View = ComponentType<{ context: IContext }>;
export type TrialPage = ComponentType<{ context: IContext; trial: number }>;
export type ComparePage = ComponentType<{ context: IPageContext; a: string; b: string }>;
/** `onRefs`: the user has added or removed a trial. */
export type CompareManyPage = ComponentType<{
  context: IPageContext;
  refs: readonly string[];
  onRefs: (refs: readonly string[]) => void;
}>;
