/** The form of a doctor's finding: one or more lines for people, one object a line for programs. */

export interface Finding {
  /** the check's name */
  readonly check: string;
  readonly ok: boolean;
  /** for people, one line or more */
  readonly text: string;
  /** what to do if it is not ok, or could be better */
  readonly advice?: string;
  /** for programs */
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
