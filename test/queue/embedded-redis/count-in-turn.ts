// Child of the turn tests: adds to a number in a file, one reads and one writes at a time only if turns exclude.
import { readFileSync, writeFileSync } from 'node:fs';
import { takeTurn } from '../../../src/queue/embedded-redis/turn.ts';

const [, , turns = '', file = '', times = '0'] = process.argv;
for (let round = 0; round < Number(times); round++) {
  const turn = await takeTurn(turns, 30_000);
  const before = Number(readFileSync(file, 'utf8'));
  await new Promise((resolve) => setImmediate(resolve));
  writeFileSync(file, `${before + 1}`);
  turn[Symbol.dispose]();
}
// Ends with the turn in its hand, as a killed process would.
await takeTurn(turns, 30_000);
process.kill(process.pid, 'SIGKILL');
