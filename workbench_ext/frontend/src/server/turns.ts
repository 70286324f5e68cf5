/** Rate limiting for a repeated task. Law: at once after a pause; one at a time; at most half of the time. */

export class Turns {
  /** `gap`: minimum milliseconds between the starts of two runs. */
  constructor(
    private _task: () => Promise<unknown>,
    private _gap: number
  ) {}

  /** Run the task: now, or once more after the current run, which then serves all calls made meanwhile. */
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
      // A failing task reports the error itself, and runs again with the next call.
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

/** Wait for the frame after the next one, when the next one has been painted. While the page is hidden, there are no
 * frames. */
export function painted(): Promise<void> {
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}
