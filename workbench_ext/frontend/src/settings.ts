/** The user's settings from the settings editor. Law: every setting here has an effect. */

import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ISignal, Signal } from '@lumino/signaling';

export interface IChoices {
  /** Seconds. */
  readonly pollInterval: number;
  readonly defaultTab: string;
  readonly notifyEnd: boolean;
  readonly notifyTrouble: boolean;
  readonly undoSeconds: number;
}

/** As in schema/plugin.json, for pages without a settings editor. */
const DEFAULTS: IChoices = {
  pollInterval: 1,
  defaultTab: '',
  notifyEnd: true,
  notifyTrouble: true,
  undoSeconds: 10
};

export class Settings {
  get value(): IChoices {
    return this._value;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Follow what the registry says of our plugin. */
  async follow(registry: ISettingRegistry, plugin: string): Promise<void> {
    const settings = await registry.load(plugin);
    const take = () => {
      this._value = { ...DEFAULTS, ...(settings.composite as Partial<IChoices>) };
      this._changed.emit();
    };
    settings.changed.connect(take);
    take();
  }

  private _changed = new Signal<this, void>(this);
  private _value = DEFAULTS;
}
