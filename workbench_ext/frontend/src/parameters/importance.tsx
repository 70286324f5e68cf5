/** How much each hyperparameter matters for a metric at a level, by three methods side by side. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Choice } from '../chart/controls';
import { IContext } from '../experiment/context';
import { useAsked, useKept, useMetrics, useSignal } from '../hooks';
import { LevelChoice, useLevel } from '../levels/choice';
import { shown } from '../numbers';
import { IImportance, experimentPath } from '../server/api';

/** The minimum number of trials at a level for the server's estimate, and the number after which it is queried again. */
const LEAST = 12;
const MORE = 10;

type Row = IImportance['values'][number];

interface IMethod {
  readonly id: 'importance' | 'fanova' | 'ped_anova';
  readonly label: string;
  readonly caption: string;
}

export function ImportanceView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans, state, commands } = context;
  useSignal(experiment.changed);
  const metrics = useMetrics(experiment);
  const goal = experiment.goal?.metric ?? metrics[0] ?? '';
  const [kept, setMetric] = useKept(state, 'importance.metric', '');
  const metric = metrics.includes(kept) ? kept : goal;
  const chosen = useLevel(context);
  const valued = Math.max(
    ...chosen.levels
      .filter(({ step }) => chosen.step === null || step === chosen.step)
      .map(({ values }) => values.size),
    0
  );
  const few =
    valued < LEAST
      ? trans._n(
          '%1 trial has a value at the level: importance needs %2 or more.',
          '%1 trials have a value at the level: importance needs %2 or more.',
          valued,
          LEAST
        )
      : null;
  const waits = chosen.waits ?? few;
  const { value, error, asking } = useAsked(
    async () =>
      waits
        ? null
        : experiment.api.get<IImportance>(experimentPath(experiment.ref, 'importance'), { metric, level: chosen.step }),
    [experiment, metric, chosen.step, waits === null, Math.floor(valued / MORE), experiment.ended]
  );
  const told = error || waits ? null : value;
  const look = (name: string) => {
    state.set('contour.x', `p:${name}`);
    void commands.execute('workbench:open', { ...experiment.named, tab: 'slice' });
  };
  return (
    <div className="wb-View wb-Importance">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('Importance settings')}>
        <Choice
          label={trans.__('Metric')}
          value={metric}
          onChange={setMetric}
          options={(metrics.length ? metrics : [metric]).map(name => [name, name])}
        />
        <LevelChoice chosen={chosen} highest={trans.__('highest of %1+ trials', LEAST)} trans={trans} />
        <span className="wb-Count" role="status">
          {told &&
            (told.signal
              ? trans.__('%1 trials at step %2; R² on held-out trials %3', told.trials, told.level, shown(told.quality))
              : trans.__('%1 trials at step %2', told.trials, told.level))}
        </span>
      </div>
      {(waits ?? error) && (
        <p className="wb-Note" role="status">
          {waits ?? error?.message}
        </p>
      )}
      {!error && !waits && value === null && asking && (
        <p className="wb-Note" role="status">
          {trans.__('Computing …')}
        </p>
      )}
      {told && !told.signal && (
        <p className="wb-Note" role="status">
          {trans.__(
            'No signal: predictions of %1 for held-out trials are no better than chance, so no hyperparameter can be said to matter. More trials may show more.',
            told.metric
          )}
        </p>
      )}
      {told && told.lacks.length > 0 && (
        <p className="wb-Note" role="status">
          {trans.__(
            "fANOVA and PED-ANOVA need %1 in JupyterLab's environment: pip install 'workbench[importance]'.",
            told.lacks.join(', ')
          )}
        </p>
      )}
      {told && told.values.length > 0 && <Bars told={told} trans={trans} onLook={look} />}
    </div>
  );
}

function Bars(props: {
  told: IImportance;
  trans: TranslationBundle;
  onLook: (name: string) => void;
}): React.JSX.Element {
  const { told, trans, onLook } = props;
  const methods = methodsOf(told, trans);
  return (
    <div className="wb-Bars">
      <table>
        <caption>
          {trans.__(
            'How much each hyperparameter matters for %1. Each column adds up to 1; the line is one standard deviation.',
            told.metric
          )}
        </caption>
        <thead>
          <tr>
            <th scope="col">
              <span className="wb-visually-hidden">{trans.__('hyperparameter')}</span>
            </th>
            {methods.map(({ id, label, caption }) => (
              <th key={id} scope="col" colSpan={2} title={caption}>
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {told.values.map(row => (
            <tr key={row.name}>
              <th scope="row">
                <button
                  type="button"
                  className="wb-Link"
                  title={trans.__('Show the goal against %1', row.name)}
                  onClick={() => onLook(row.name)}
                >
                  {row.name}
                </button>
              </th>
              {methods.map(({ id }) => (
                <Bar key={id} share={row[id] ?? 0} std={id === 'importance' ? row.std : 0} most={mostOf(told, id)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function methodsOf({ values }: IImportance, trans: TranslationBundle): IMethod[] {
  const all: IMethod[] = [
    {
      id: 'importance',
      label: trans.__('Permutation'),
      caption: trans.__('How much worse held-out trials are predicted when the values are shuffled')
    },
    {
      id: 'fanova',
      label: trans.__('fANOVA'),
      caption: trans.__('The share of the variance over the tried values that the hyperparameter explains alone')
    },
    {
      id: 'ped_anova',
      label: trans.__('PED-ANOVA'),
      caption: trans.__('How much the values of the best tenth of trials differ from those of all trials')
    }
  ];
  return all.filter(({ id }) => values.some(row => row[id] !== null));
}

/** The value at the right end of a column's bars. */
function mostOf({ values }: IImportance, id: keyof Row & IMethod['id']): number {
  return Math.max(...values.map(row => row[id] ?? 0), 1e-9) * 1.1;
}

function Bar({ share, std, most }: { share: number; std: number; most: number }): React.JSX.Element {
  return (
    <>
      <td>
        <span className="wb-Bar">
          <span className="wb-Bar-fill" style={{ width: `${(100 * share) / most}%` }} />
          {std > 0 && (
            <span
              className="wb-Bar-std"
              aria-hidden="true"
              style={{
                left: `${(100 * Math.max(share - std, 0)) / most}%`,
                width: `${(100 * (Math.min(std, share) + std)) / most}%`
              }}
            />
          )}
        </span>
      </td>
      <td className="wb-Bar-value">
        {share.toFixed(3)}
        {std > 0 && <span> ± {std.toFixed(3)}</span>}
      </td>
    </>
  );
}
