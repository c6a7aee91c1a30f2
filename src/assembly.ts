/**
 * Registers the functions and the worker file that create a pipeline's actors. Every entry point
 * from which a program can open a pipeline imports this module.
 */
import { makeActors } from '../actors/make.ts';
import { actorsBy } from './engine/pipeline/actors.ts';

actorsBy({ make: makeActors, thread: new URL('../actors/thread.js', import.meta.url) });
