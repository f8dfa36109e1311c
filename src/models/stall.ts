/** Longest delay a timer can hold; beyond it timers fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

export interface StallWatch {
  /** Goes to the provider's request: aborts when the caller aborts, when the provider falls silent, and on `close`. */
  readonly signal: AbortSignal;
  /** Whether silence was what ended the request. */
  stalled(): boolean;
  /**
   * Waits for something the provider owes us. The silence is counted only while somebody waits: a consumer that is slow to
   * take the next part must not make a healthy provider look dead.
   */
  during<T>(wait: Promise<T>): Promise<T>;
  /** Lets go of the caller's signal and closes the request, if it is still open. */
  close(): void;
}

/** Watches one request for silence longer than `limitMs`. */
export function watchStall(parent: AbortSignal, limitMs: number): StallWatch {
  const controller = new AbortController();
  let stalled = false;

  const abort = () => controller.abort();
  parent.addEventListener("abort", abort, { once: true });
  if (parent.aborted) abort();

  return {
    signal: controller.signal,
    stalled: () => stalled,
    during: (wait) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          stalled = true;
          controller.abort();
        }, Math.min(Math.max(limitMs, 1), MAX_TIMER_MS));
        // The runtime should end a pending read when its request is aborted. We do not depend on it: a read that never
        // comes back would hold the turn, and with it the session, for ever.
        const giveUp = () => {
          clearTimeout(timer);
          reject(new DOMException("The request was aborted.", "AbortError"));
        };
        controller.signal.addEventListener("abort", giveUp, { once: true });
        if (controller.signal.aborted) giveUp();
        wait.then(resolve, reject).finally(() => {
          clearTimeout(timer);
          controller.signal.removeEventListener("abort", giveUp);
        });
      }),
    close() {
      parent.removeEventListener("abort", abort);
      controller.abort();
    },
  };
}
