/**
 * A lease: a key with one holder at a time, by commands that every server has, without a script.
 */

/** Sends one command. Commands of one turn directly follow each other. */
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
    // The lease ended in between.
    if (holder === null) continue;
    if (holder !== value) {
      await call(['UNWATCH']);
      return holder;
    }
    // The lease is ours. EXEC prolongs it only if the key has not changed since WATCH.
    const sent = [['MULTI'], ['PEXPIRE', key, lifeMs], ['EXEC']].map((args) => call(args));
    const [, queued, done] = await Promise.allSettled(sent);
    // The error of a refused command says more than that of its EXEC.
    if (queued?.status === 'rejected') throw queued.reason;
    if (done?.status === 'rejected') throw done.reason;
    if (done?.value !== null) return value;
  }
}
