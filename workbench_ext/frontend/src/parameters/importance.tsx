/** How much of the goal's differences each hyperparameter explains. */

import * as React from 'react';

import { IImportance, experimentPath } from '../server/api';
import { shown } from '../numbers';
import { IContext } from '../experiment/context';
import { useAsked, useKept, useMetrics, useSignal } from '../hooks';
import { Choice } from '../chart/controls';

/** The minimum number of trials with a value for the server's estimate, and the number after which it is queried again.
 * */
const LEAST = 12;
const MORE = 10;

export function ImportanceView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans, state, commands } = context;
  useSignal(experiment.changed);
  const metrics = useMetrics(experiment);
  const goal = experiment.goal?.metric ?? metrics[0] ?? '';
  const [kept, setMetric] = useKept(state, 'importance.metric', '');
  const metric = metrics.includes(kept) ? kept : goal;
  const valued = [...experiment.trials.values()].filter(({ best, value }) => (best ?? value) !== null).length;
  const few = valued < LEAST;
  const { value, error, asking } = useAsked(
    async () =>
      few ? null : experiment.api.get<IImportance>(experimentPath(experiment.ref, 'importance'), { metric }),
    [experiment, metric, few, Math.floor(valued / MORE), experiment.ended]
  );
  const rows = error ? [] : [...(value?.values ?? [])].sort((a, b) => b.importance - a.importance);
  const most = Math.max(...rows.map(({ importance }) => importance), 1e-9) * 1.1;
  const look = (name: string) => {
    state.set('scatter.x', `p:${name}`);
    void commands.execute('workbench:open', { ...experiment.named, tab: 'scatter' });
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
        <span className="wb-Count" role="status">
          {value &&
            !error &&
            trans.__('%1 trials, %2; R² on held-out trials %3', value.trials, value.method, shown(value.quality))}
        </span>
      </div>
      {error && (
        <p className="wb-Note" role="status">
          {error.message}
        </p>
      )}
      {few && (
        <p className="wb-Note" role="status">
          {trans.__('%1 of the trials have a value: importance needs %2 or more.', valued, LEAST)}
        </p>
      )}
      {!error && !few && value === null && asking && (
        <p className="wb-Note" role="status">
          {trans.__('Computing …')}
        </p>
      )}
      {rows.length > 0 && (
        <div className="wb-Bars">
          <table>
            <caption>
              {trans.__(
                'How much of the differences in %1 each hyperparameter explains. The line is one standard deviation.',
                metric
              )}
            </caption>
            <thead className="wb-visually-hidden">
              <tr>
                <th scope="col">{trans.__('hyperparameter')}</th>
                <th scope="col">{trans.__('importance')}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ name, importance, std }) => (
                <tr key={name}>
                  <th scope="row">
                    <button
                      type="button"
                      className="wb-Link"
                      title={trans.__('Show %1 against the goal', name)}
                      onClick={() => look(name)}
                    >
                      {name}
                    </button>
                  </th>
                  <td>
                    <span className="wb-Bar">
                      <span className="wb-Bar-fill" style={{ width: `${(100 * importance) / most}%` }} />
                      {std !== null && std > 0 && (
                        <span
                          className="wb-Bar-std"
                          aria-hidden="true"
                          style={{
                            left: `${(100 * Math.max(importance - std, 0)) / most}%`,
                            width: `${(100 * (Math.min(std, importance) + std)) / most}%`
                          }}
                        />
                      )}
                    </span>
                  </td>
                  <td className="wb-Bar-value">
                    {shown(Number(importance.toFixed(3)))}
                    {std !== null && <span> ± {shown(Number(std.toFixed(3)))}</span>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
