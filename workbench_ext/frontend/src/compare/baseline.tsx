/** How trials differ from one of them in code, data and environment. Their configurations are in the table above. */

import * as React from 'react';

import { Choice } from '../chart/controls';
import { IPageContext } from '../experiment/context';
import { useAsked } from '../hooks';
import { IComparison } from '../server/api';
import { alike } from './alike';
import { IMember } from './lineup';
import { Section } from './view';

export function Baseline(props: { context: IPageContext; members: readonly IMember[] }): React.JSX.Element {
  const { context, members } = props;
  const { api, trans, openCompare } = context;
  const refs = [...new Set(members.map(({ ref }) => ref))];
  const [chosen, setBaseline] = React.useState('');
  const baseline = refs.includes(chosen) ? chosen : refs[0]!;
  const asked = useAsked(async () => {
    const answers: IComparison[] = [];
    // One after the other: each reads snapshots and series.
    for (const b of refs.filter(ref => ref !== baseline)) {
      answers.push(await api.get<IComparison>('compare', { a: baseline, b }));
    }
    return { baseline, groups: alike(answers) };
  }, [api, baseline, refs.join(' ')]);
  // While another baseline is asked for, the answer about the former one would be wrong.
  const groups = asked.value?.baseline === baseline ? asked.value.groups : null;
  return (
    <section className="wb-Part wb-Many-differences" aria-label={trans.__('Differences of code and environment')}>
      <h4>{trans.__('Differences of code and environment')}</h4>
      <Choice
        label={trans.__('Compared with')}
        value={baseline}
        onChange={setBaseline}
        options={refs.map(ref => [ref, ref])}
      />
      {!groups && (
        <p className="wb-Note" role="status">
          {asked.error?.message ?? trans.__('Comparing …')}
        </p>
      )}
      {groups?.map(({ refs: alikes, found }) => (
        <section key={alikes.join()} className="wb-Many-group" aria-label={alikes.join(', ')}>
          <h5>
            {alikes.map(ref => (
              <button
                key={ref}
                type="button"
                className="wb-Link"
                title={trans.__('Compare %1 and %2 in detail', baseline, ref)}
                onClick={() => openCompare(baseline, ref)}
              >
                {ref}
              </button>
            ))}
          </h5>
          {found.sections.length === 0 && <p>{trans.__('No known difference besides the configuration.')}</p>}
          {found.partial.map(word => (
            <p key={word} className="wb-Compare-note">
              {word}
            </p>
          ))}
          {found.sections.map(section => (
            <Section
              key={section.kind}
              context={context}
              section={section}
              found={alikes.length > 1 ? { ...found, b: { ...found.b, ref: alikes.join(', ') } } : found}
            />
          ))}
        </section>
      ))}
    </section>
  );
}
