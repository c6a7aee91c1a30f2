/**
 * Splits the server's URL into a part that may be shown and the password. The password appears in
 * no text and in no command line.
 */
import { Refused } from '../command-line.ts';

export interface Address {
  readonly shown: string;
  /** password of the URL, or undefined if it has none */
  readonly password: string | undefined;
}

/**
 * Returns the parts of a URL. Throws for an invalid URL. The error does not repeat it, because a
 * part of a password may be anywhere in it.
 */
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
    // The error is thrown below.
  }
  throw refused;
}
