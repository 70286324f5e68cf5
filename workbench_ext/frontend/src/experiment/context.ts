/** What every view of a page is given. Law: interfaces only. */

import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ISignal } from '@lumino/signaling';
import { ComponentType } from 'react';

import { Api } from '../server/api';
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
  /** The theme changed; code that draws on a canvas must read its colours again. */
  readonly themeChanged: ISignal<unknown, void>;
  /** Show a comparison in a new page. References as users write them: `digits@2/t0007:27`. */
  openCompare(a: string, b: string): void;
  /** Plotly, loaded once from our own server. */
  plotly(): Promise<IPlotly>;
}

/** What the views of an experiment's page are given. They share its model and its selection. */
export interface IContext extends IPageContext {
  readonly experiment: ExperimentModel;
  readonly selection: Selection;
  /** Choices kept with the workspace for this experiment. Prefix keys with the view's id. */
  readonly state: ViewState;
  /** Show a trial's page inside this document. */
  openTrial(trial: number): void;
}

export type View = ComponentType<{ context: IContext }>;
export type TrialPage = ComponentType<{ context: IContext; trial: number }>;
export type ComparePage = ComponentType<{ context: IPageContext; a: string; b: string }>;
