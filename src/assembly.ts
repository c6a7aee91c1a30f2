/**
 * Gives pipelines their actors. Every module by which a program may open a pipeline imports this
 * one.
 */
import { makeActors } from '../actors/make.ts';
import { actorsBy } from './engine/pipeline/actors.ts';

actorsBy({ make: makeActors, thread: new URL('../actors/thread.js', import.meta.url) });
