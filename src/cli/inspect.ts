/** `hotslot inspect`: prints the contents of a checkpoint. It reads only the manifest. */
import { Checkpoint } from '../run/checkpoint/checkpoint.ts';
import type { CheckpointContents } from '../run/checkpoint/inspect.ts';
import type { Plain, PlainRecord } from '../run/checkpoint/manifest.ts';

const MEGABYTE = 1e6;
const size = (bytes: number) =>
  bytes < MEGABYTE ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / MEGABYTE).toFixed(1)} MB`;

/** Returns exit code 0, or 1 if the folder has no readable checkpoint. */
export async function inspect(how: {
  folder: string;
  json: boolean;
  print(text: string): void;
}): Promise<0 | 1> {
  let contents: CheckpointContents | null;
  try {
    contents = await Checkpoint.inspect(how.folder);
  } catch (error) {
    process.stderr.write(`hotslot: ${(error as Error).message}\n`);
    return 1;
  }
  if (contents === null) {
    process.stderr.write(`hotslot: '${how.folder}' does not contain a checkpoint\n`);
    return 1;
  }
  how.print(how.json ? `${JSON.stringify(contents)}\n` : asText(contents));
  return 0;
}

function asText({
  folder,
  save,
  tick,
  time,
  bytes,
  parts,
  files,
  learnerFile,
}: CheckpointContents): string {
  const lines = [
    `${folder}: save ${save}, ${tick < 0 ? 'before the first tick' : `after tick ${tick}`}, taken ${time}`,
    `${size(bytes)} in ${files.length} files`,
    '',
  ];
  for (const [name, facts] of Object.entries(parts)) {
    const { is, ...numbers } = facts as { is: PlainRecord } & PlainRecord;
    lines.push(name, ...indented(is), ...indented(numbers));
  }
  if (learnerFile !== null) lines.push('', `weights and moments, for torch too: ${learnerFile}`);
  return `${lines.join('\n')}\n`;
}

/**
 * Formats a record with one value per line. Indents a nested record, such as fields or a learner's
 * state, below its name.
 */
function indented(record: PlainRecord, depth = 1): string[] {
  const pad = '  '.repeat(depth);
  return Object.entries(record).flatMap(([name, value]) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? [`${pad}${name}`, ...indented(value as PlainRecord, depth + 1)]
      : [`${pad}${name}: ${valueText(value)}`],
  );
}
const valueText = (value: Plain) => (typeof value === 'string' ? value : JSON.stringify(value));
