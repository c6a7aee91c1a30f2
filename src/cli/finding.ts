/**
 * Formats the findings of `hotslot doctor`, as text for people or as a line of JSON for programs.
 */

export interface Finding {
  /** name of the check */
  readonly check: string;
  readonly ok: boolean;
  /** result for people, one or more lines */
  readonly text: string;
  /** what the user can do to fix or improve the result */
  readonly advice?: string;
  /** further members of the JSON object, for programs */
  readonly facts?: object;
}

export function asText({ check, ok, text, advice }: Finding): string {
  const indent = ' '.repeat(18);
  const lines = text.split('\n').map((line) => line.trim());
  if (advice) lines.push(`→ ${advice}`);
  return `${ok ? ' ' : '!'} ${check.padEnd(16)}${lines.join(`\n${indent}`)}\n`;
}

export function asJson({ check, ok, text, advice, facts }: Finding): string {
  return `${JSON.stringify({ check, ok, text, advice, ...facts })}\n`;
}
