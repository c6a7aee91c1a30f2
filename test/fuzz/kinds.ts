/** The kinds of fuzzing, by name. */
import { doorOn } from './door.ts';
import { filesOn } from './files.ts';
import { messages } from './messages.ts';
import { commands, environment, http } from './outside.ts';
import type { Kind } from './target.ts';

export const kinds = {
  door: doorOn,
  files: filesOn,
  messages,
  http,
  commands,
  environment,
} as const satisfies Record<string, (device: string) => Promise<Kind> | Kind>;
export type KindName = keyof typeof kinds;
