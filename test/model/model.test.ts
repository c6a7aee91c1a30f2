import { explore } from './checker.ts';
import { protocol } from './protocol.ts';
import type { Role } from './roles.ts';
