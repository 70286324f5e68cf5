/** The views of an experiment's page, in the order of their tabs. Law: a table; each view's owner adds its line. */

import { TranslationBundle } from '@jupyterlab/translation';

import { CompareManyPage, ComparePage, TrialPage, View } from './context';
import { AboutView } from './about';
import { ChartsView } from '../charts/view';
import { CompareMany } from '../compare/many';
import { CompareView } from '../compare/view';
import { CurvesView } from '../curves/view';
import { ImportanceView } from '../parameters/importance';
import { LadderView } from '../ladder/view';
import { ContourView } from '../levels/contour';
import { HistoryView } from '../levels/history';
import { SliceView } from '../levels/slice';
import { MediaView } from '../media/view';
import { ParallelView } from '../parameters/parallel';
import { ScatterView } from '../parameters/scatter';
import { TableView } from '../table/view';
import { TimelineView } from '../timeline/view';
import { TrialView } from '../trial/view';

export interface IView {
  /** Kept in workspaces: never changed. */
  readonly id: string;
  readonly label: (trans: TranslationBundle) => string;
  readonly component: View;
}

export const VIEWS: readonly IView[] = [
  { id: 'curves', label: trans => trans.__('Curves'), component: CurvesView },
  { id: 'charts', label: trans => trans.__('Charts'), component: ChartsView },
  { id: 'media', label: trans => trans.__('Media'), component: MediaView },
  { id: 'rungs', label: trans => trans.__('Rungs'), component: LadderView },
  { id: 'table', label: trans => trans.__('Table'), component: TableView },
  { id: 'parallel', label: trans => trans.__('Parallel'), component: ParallelView },
  { id: 'scatter', label: trans => trans.__('Scatter'), component: ScatterView },
  { id: 'slice', label: trans => trans.__('Slice'), component: SliceView },
  { id: 'contour', label: trans => trans.__('Contour'), component: ContourView },
  { id: 'importance', label: trans => trans.__('Importance'), component: ImportanceView },
  { id: 'history', label: trans => trans.__('History'), component: HistoryView },
  { id: 'timeline', label: trans => trans.__('Timeline'), component: TimelineView },
  { id: 'about', label: trans => trans.__('About'), component: AboutView }
];

/** Shown by `openTrial` in place of the tab's view, and by `workbench:compare`. */
export const PAGES: {
  readonly trial: TrialPage | null;
  readonly compare: ComparePage | null;
  readonly compareMany: CompareManyPage | null;
} = {
  trial: TrialView,
  compare: CompareView,
  compareMany: CompareMany
};
