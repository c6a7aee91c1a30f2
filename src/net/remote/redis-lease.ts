/** A key that one holder has at a time, by commands that every server has, and without a script. */

/** Sends one command; those of one turn stand one behind the other. */
type Call = (args: readonly string[]) => Promise<string | null>;

export async function leaseKey(
  call: Call,
  key: string,
  value: string,
  lifeMs: string,
): Promise<string> {
  for (;;) {
    if ((await call(['SET', key, value, 'NX', 'PX', lifeMs])) !== null) return value;
    const [, holder] = await Promise.all([call(['WATCH', key]), call(['GET', key])]);
    // It ended in between.
    if (holder === null) continue;
    if (holder !== value) {
      await call(['UNWATCH']);
      return holder;
    }
    // Ours, and prolonged only if it is still ours then: nothing is done where the key has changed
    // since.
    const sent = [['MULTI'], ['PEXPIRE', key, lifeMs], ['EXEC']].map((args) => call(args));
    const [, queued, done] = await Promise.allSettled(sent);
    // EXEC of a refused command says less than its refusal.
    if (queued?.status === 'rejected') throw queued.reason;
    if (done?.status === 'rejected') throw done.reason;
    if (done?.value !== null) return value;
  }
}
