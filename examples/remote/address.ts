/**
 * The server's URL in two parts: what may be shown, and the password, which stands in no text and
 * no command line.
 */
import { Refused } from '../command-line.ts';

export interface Address {
  readonly shown: string;
  /** undefined: the URL has none */
  readonly password: string | undefined;
}

/** What is no URL is not repeated: half of a password may stand anywhere in it. */
export function addressOf(given: string): Address {
  const refused = new Refused(
    '--url cannot be read: it must be like rediss://user@host:6380, with the password in HOTSLOT_REDIS_PASSWORD',
  );
  try {
    const url = new URL(given);
    const password = decodeURIComponent(url.password) || undefined;
    url.password = '';
    if (!/@/.test(url.host + url.pathname) || url.protocol === 'unix:')
      return { shown: url.href, password };
  } catch {
    // said below
  }
  throw refused;
}
