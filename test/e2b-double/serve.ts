/** `npx tsx test/e2b-double/serve.ts`: the double until it is interrupted; prints the variables that lead a client to it. */
import { openE2bDouble } from './open-e2b-double.ts';

const double = await openE2bDouble();
for (const [name, value] of Object.entries(double.env)) console.log(`export ${name}=${value}`);
const end = (): void => void double[Symbol.asyncDispose]();
process.once('SIGINT', end);
process.once('SIGTERM', end);
