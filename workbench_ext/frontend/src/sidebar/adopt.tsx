/** The banner over a store that is not known as this user's. Law: it says whose and why; adopting asks once. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Api, IHealth, IOwnership } from '../server/api';
import { confirmed } from '../commands/dialogs';

/** The text and a button, while the store is another user's. */
export function AdoptBanner(props: {
  health: IHealth | null;
  trans: TranslationBundle;
  adopt: () => void;
}): React.JSX.Element | null {
  const { health, trans, adopt } = props;
  if (!health?.store || health.ours || health.published) {
    return null;
  }
  return (
    <div className="wb-Adopt" role="status">
      <p className="wb-Section-note">
        {trans.__('This store is not known to be yours. It is shown, but nothing in it runs: %1', health.root)}
        <button type="button" className="wb-Button" onClick={adopt}>
          {trans.__('Adopt It …')}
        </button>
      </p>
    </div>
  );
}

/** What adopting means, in sentences: the owner, the contents, and what will not continue by itself. */
export function meaning(found: IOwnership, trans: TranslationBundle): string {
  const { root, owner, why, experiments, unfinished, requests, tells } = found;
  const words = [
    trans._n(
      '%2 belongs to %3 and holds %1 experiment.',
      '%2 belongs to %3 and holds %1 experiments.',
      experiments,
      root,
      owner
    ),
    trans.__('It is not known to be yours: %1.', why),
    trans.__('After you adopt it, its contents may run as you: training code, captured values, checkpoints.')
  ];
  if (unfinished.length > 0) {
    const more = unfinished.length > 5 ? ', …' : '';
    words.push(trans.__('Unfinished, and paused until you resume them: %1.', unfinished.slice(0, 5).join(', ') + more));
  }
  if (requests > 0) {
    words.push(
      trans._n('%1 pending request will not be carried out.', '%1 pending requests will not be carried out.', requests)
    );
  }
  if (tells) {
    words.push(trans.__('Its notification addresses are removed.'));
  }
  return words.join(' ');
}

/** Ask, and adopt. False if the user cancels. Rejects with `ApiError`. */
export async function adoptStore(api: Api, trans: TranslationBundle): Promise<boolean> {
  const found = await api.get<IOwnership>('ownership');
  if (found.is_ours) {
    return true;
  }
  const sure = await confirmed({
    title: trans.__('Adopt this store?'),
    body: meaning(found, trans),
    okLabel: trans.__('Adopt'),
    trans
  });
  if (sure) {
    await api.post<IOwnership>('ownership', { root: found.root });
  }
  return sure;
}
