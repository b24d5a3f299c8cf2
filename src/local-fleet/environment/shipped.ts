import { fileURLToPath } from 'node:url';
import type { LocalEnvironment } from './environment.ts';
import { loadEnvironments } from './load.ts';

/** The environments that come with rollpool: beside this file in the source as in the built package. */
export async function shippedEnvironments(): Promise<readonly LocalEnvironment[]> {
  return loadEnvironments(fileURLToPath(new URL('../environments', import.meta.url)));
}
