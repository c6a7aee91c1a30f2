/** Describes a battle in words, from the simulator's log. */

const named = (who = ''): string =>
  who.replace(/^p1a?: /, '').replace(/^p2a?: (.*)$/, 'the other $1');

/** Returns a line for each entry of the log that is worth showing. */
export function told(log: readonly string[]): string[] {
  const lines: string[] = [];
  for (const entry of log) {
    const [, kind, who, what] = entry.split('|');
    if (kind === 'turn') lines.push(`turn ${who}`);
    else if (kind === 'switch') lines.push(`  ${named(who)} comes`);
    else if (kind === 'move') lines.push(`  ${named(who)}: ${what}`);
    else if (kind === 'cant') lines.push(`  ${named(who)} cannot move (${what})`);
    else if (kind === '-supereffective') lines.push('    very effective');
    else if (kind === '-miss') lines.push('    missed');
    else if (kind === '-damage' || kind === '-heal') lines.push(`    ${named(who)}: ${what}`);
    else if (kind === '-status') lines.push(`    ${named(who)}: ${what}`);
    else if (kind === 'faint') lines.push(`    ${named(who)} is beaten`);
    else if (kind === 'win') lines.push(`won by ${who}`);
    else if (kind === 'tie') lines.push('a tie');
  }
  // The simulator logs some changes once for each player, so equal lines may follow each other.
  return lines.filter((line, i) => line !== lines[i - 1]);
}
