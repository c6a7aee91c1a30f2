/** `hotslot doctor --url`: checks the Redis or Valkey server that carries rows between machines. */

import { checkAddress } from '../net/remote/address.ts';
import { inspectServer } from '../net/remote/doctor.ts';
import { findingsOf } from '../net/remote/server-findings.ts';
import { asJson, asText } from './finding.ts';

interface Arguments {
  url: string;
  insecure: boolean;
  /** path of a file of CA certificates, '' for the system's certificates */
  ca: string;
  json: boolean;
  print(text: string): void;
}

/**
 * Prints all findings. Resolves with exit code 0 if all are ok, else 1. Rejects with one sentence
 * if no server answers.
 */
export async function doctorOfServer({
  url,
  insecure,
  ca,
  json,
  print,
}: Arguments): Promise<0 | 1> {
  const findings = findingsOf(
    await inspectServer(checkAddress({ url, insecure, ca: ca || undefined })),
  );
  for (const finding of findings) print(json ? asJson(finding) : asText(finding));
  const wrong = findings.filter(({ ok }) => !ok).map(({ check }) => check);
  const ok = wrong.length === 0;
  const sentence = ok
    ? 'This server can carry rows.'
    : `This server must be mended first: ${wrong.join(', ')}.`;
  print(json ? `${JSON.stringify({ ok, wrong })}\n` : `\n${sentence}\n`);
  return ok ? 0 : 1;
}
