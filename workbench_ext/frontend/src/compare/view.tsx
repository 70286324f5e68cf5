/** Two trials or two versions side by side: what changed, the most likely causes first, and the results. */

import * as React from 'react';

import { IComparison, IComparisonSection } from '../server/api';
import { IPageContext } from '../experiment/context';
import { sideBySide, folded } from './diff';
import { useAsked } from '../hooks';
import { Beside } from '../media/beside';
import { CompareResults } from './results';
import { Value } from '../trial/facts';

export function CompareView(props: { context: IPageContext; a: string; b: string }): React.JSX.Element {
  const { context, a, b } = props;
  const { api, trans } = context;
  const [turn, setTurn] = React.useState(0);
  const asked = useAsked(() => api.get<IComparison>('compare', { a, b }), [a, b, turn]);
  const found = asked.value;
  if (!found) {
    return (
      <p className="wb-Note" role="status">
        {asked.error ? asked.error.message : trans.__('Comparing %1 with %2 …', a, b)}
      </p>
    );
  }
  const sections = [...found.sections].sort((one, other) => one.likely - other.likely);
  return (
    <article className="wb-Compare" aria-label={trans.__('%1 and %2', a, b)}>
      <header className="wb-Compare-head">
        <h2>
          <span className="wb-Side-a">{found.a.ref}</span>
          <span aria-hidden="true"> ↔ </span>
          <span className="wb-Side-b">{found.b.ref}</span>
        </h2>
        <span className="wb-Compare-actions">
          <button type="button" className="wb-Button" onClick={() => context.openCompare(b, a)}>
            {trans.__('Swap')}
          </button>
          <button type="button" className="wb-Button" disabled={asked.asking} onClick={() => setTurn(turn + 1)}>
            {trans.__('Compare Again')}
          </button>
        </span>
        <p className="wb-Compare-title">{found.same ? trans.__('No known difference.') : found.title}</p>
        {found.partial.length > 0 && (
          <ul className="wb-Compare-partial" aria-label={trans.__('Not known')}>
            {found.partial.map(word => (
              <li key={word}>{word}</li>
            ))}
          </ul>
        )}
      </header>
      <CompareResults context={context} found={found} />
      <Beside
        context={context}
        sides={[found.a, found.b].flatMap(({ ref, experiment, trial }) =>
          trial === null ? [] : [{ label: ref, experiment, trial, change: turn }]
        )}
      />
      {sections.map(section => (
        <Section key={section.kind} context={context} section={section} found={found} />
      ))}
    </article>
  );
}

/** What differs of one kind. */
export function Section(props: {
  context: IPageContext;
  section: IComparisonSection;
  found: IComparison;
}): React.JSX.Element {
  const { context, section, found } = props;
  const { trans } = context;
  const cells = (section.cells ?? []).filter(({ state }) => state !== 'same');
  return (
    <section className="wb-Part" aria-label={section.title}>
      <h4>
        {section.title} <span className="wb-Compare-summary">{section.summary}</span>
      </h4>
      {section.items.length > 0 && (
        <table className="wb-Compare-table">
          <thead>
            <tr>
              <th scope="col">{trans.__('What')}</th>
              <th scope="col">{found.a.ref}</th>
              <th scope="col">{found.b.ref}</th>
            </tr>
          </thead>
          <tbody>
            {section.items.map(({ name, a, b, note }) => (
              <tr key={name}>
                <th scope="row">
                  {name}
                  {note && !(a === null && b === null) && <div className="wb-Compare-note">{note}</div>}
                </th>
                {a === null && b === null ? (
                  <td colSpan={2}>{note}</td>
                ) : (
                  <>
                    <td className="wb-Side-a">
                      <Value value={a} />
                    </td>
                    <td className="wb-Side-b">
                      <Value value={b} />
                    </td>
                  </>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {cells.map((cell, at) => (
        <Cell key={`${cell.id}-${at}`} context={context} cell={cell} />
      ))}
    </section>
  );
}

type ICell = NonNullable<IComparisonSection['cells']>[number];

/** A cell's lines side by side. Signs beside them say what changed, so that no colour is needed. */
function Cell({ context, cell }: { context: IPageContext; cell: ICell }): React.JSX.Element {
  const { trans } = context;
  const states: Readonly<Record<ICell['state'], string>> = {
    same: trans.__('same'),
    changed: trans.__('changed'),
    added: trans.__('added'),
    removed: trans.__('removed'),
    moved: trans.__('moved')
  };
  const rows = folded(sideBySide(cell.diff));
  return (
    <figure className="wb-Diff">
      <figcaption>
        <code>{cell.id}</code> {states[cell.state]}
      </figcaption>
      {rows.length > 0 && (
        <table>
          <tbody>
            {rows.map((row, at) =>
              typeof row === 'number' ? (
                <tr key={at} className="wb-Diff-fold">
                  <td colSpan={6}>{trans._n('%1 line as before', '%1 lines as before', row, row)}</td>
                </tr>
              ) : (
                <tr key={at}>
                  <Line side={row.a} sign={row.changed && row.a ? '−' : ''} kind="gone" />
                  <Line side={row.b} sign={row.changed && row.b ? '+' : ''} kind="come" />
                </tr>
              )
            )}
          </tbody>
        </table>
      )}
    </figure>
  );
}

function Line(props: {
  side: { n: number; text: string } | null;
  sign: string;
  kind: 'gone' | 'come';
}): React.JSX.Element {
  const { side, sign, kind } = props;
  const mark = side === null ? 'wb-mod-none' : sign ? `wb-mod-${kind}` : '';
  return (
    <>
      <td className={`wb-Diff-number ${mark}`}>{side?.n}</td>
      <td className={`wb-Diff-sign ${mark}`}>{sign}</td>
      <td className={`wb-Diff-text ${mark}`}>{side?.text}</td>
    </>
  );
}
