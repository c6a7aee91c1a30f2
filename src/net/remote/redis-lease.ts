/**
 * Takes or prolongs a lease: a key with one holder at a time. It uses commands that every server
 * has, and needs no script.
 */

/**
 * Sends one command. If calls do not wait for each other, their commands directly follow each other
 * on the connection.
 */
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
    // The lease expired between SET and GET, so SET may succeed now.
    if (holder === null) continue;
    if (holder !== value) {
      await call(['UNWATCH']);
      return holder;
    }
    // This caller holds the lease. EXEC prolongs it only if the key has not changed since WATCH.
    const sent = [['MULTI'], ['PEXPIRE', key, lifeMs], ['EXEC']].map((args) => call(args));
    const [, queued, done] = await Promise.allSettled(sent);
    // If PEXPIRE was refused, its error says more than the error of EXEC.
    if (queued?.status === 'rejected') throw queued.reason;
    if (done?.status === 'rejected') throw done.reason;
    if (done?.value !== null) return value;
  }
}
