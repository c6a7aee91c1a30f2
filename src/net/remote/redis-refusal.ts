/**
 * Explains in text without secrets why a connection failed. The server's own error is not used
 * unchanged: a server that does not know a command may repeat the command in its error, including
 * the password.
 *
 * The result is ERR_HOTSLOT_UNAVAILABLE if trying again would not help, else a LinkError.
 */
import { type CodedError, unavailableError } from '../../base/errors.ts';
import type { Address } from './address.ts';
import { LinkError } from './link.ts';

export type Refusal = LinkError | CodedError;

const REPLY = /^(WRONGPASS|NOAUTH|NOPERM|DENIED)\b/;
const REPLIES: Readonly<Record<string, string>> = {
  WRONGPASS:
    'rejects this user and password; check url, username and password or HOTSLOT_REDIS_PASSWORD',
  NOAUTH: 'requires a password; pass password, or set HOTSLOT_REDIS_PASSWORD in the environment',
  NOPERM: 'denies this user a command that collectors need; check its ACL rules',
  DENIED: 'rejects other machines because it has no password (protected-mode); give it one',
};
/** Error codes of node:tls and OpenSSL. */
const CERTIFICATE =
  /^(DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|CERT_|CRL_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_(CA|PURPOSE))/;
const HANDSHAKE = /^(ERR_SSL_|EPROTO$)/;

/** The oldest version with every command in use. The newest of these commands is XTRIM … MINID. */
const OLDEST = [6, 2];
export const NEEDS = 'collectors on other machines need Redis 6.2 or newer, or Valkey';

export const isFinal = (error: unknown): error is CodedError => !(error instanceof LinkError);

/** Explains why a connection failed. `isReply` is true if the error is the server's own reply. */
export function explain(error: Error, isReply: boolean, address: Address): Refusal {
  if (error instanceof LinkError) return error;
  const { shown } = address;
  const { message, code = '' } = error as { message: string; code?: string };
  if (isReply) {
    const [, word] = REPLY.exec(message) ?? [];
    if (word !== undefined) return unavailableError(`${shown} ${REPLIES[word]}`);
    if (/unknown command/i.test(message))
      return unavailableError(
        `${shown} does not know HELLO, so it is older than Redis 6; ${NEEDS}`,
      );
    return new LinkError('lost', `${shown} rejects the connection: ${redacted(message, address)}`);
  }
  if (CERTIFICATE.test(code))
    return unavailableError(
      `${shown} has an invalid certificate (${code}: ${message}); ca takes the authority's own certificate`,
    );
  if (HANDSHAKE.test(code))
    return unavailableError(`${shown} does not use TLS 1.2 or newer (${code}); check url`);
  return new LinkError('lost', `${shown} cannot be reached: ${message || code}`, error);
}

function redacted(message: string, address: Address): string {
  const password = address.password();
  return password === undefined ? message : message.replaceAll(password, '…');
}

/** Throws for a server that is too old. `server` and `version` are as the server reports them. */
export function checkVersion(server: string, version: string, address: Address): void {
  if (server === 'valkey') return;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0]! || (major === OLDEST[0] && minor >= OLDEST[1]!)) return;
  throw unavailableError(`${address.shown} is ${server} ${version}: ${NEEDS}`);
}
