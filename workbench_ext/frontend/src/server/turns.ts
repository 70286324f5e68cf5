/** When something is done again. Law: at once after a rest; one at a time; half of the time at most. */

export class Turns {
  /** `gap`: milliseconds between the beginnings of two turns at the least. */
  constructor(
    private _task: () => Promise<unknown>,
    private _gap: number
  ) {}

  /** Do it: now, or once more after what is under way. Who asks meanwhile is served by that one. */
  ask(): void {
    this._again = true;
    if (!this._busy) {
      void this._turn();
    }
  }

  dispose(): void {
    this._disposed = true;
  }

  private async _turn(): Promise<void> {
    this._busy = true;
    while (this._again && !this._disposed) {
      this._again = false;
      const begun = performance.now();
      // A task that fails says so itself, and the next turn comes when somebody asks.
      await this._task().catch(() => undefined);
      const took = performance.now() - begun;
      await new Promise(done => setTimeout(done, Math.max(this._gap - took, took)));
    }
    this._busy = false;
  }

  private _again = false;
  private _busy = false;
  private _disposed = false;
}

/** The next frame but one: what is to be painted in the next one has been. While the page is hidden, none comes. */
export function painted(): Promise<void> {
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}
