import PQueue from 'p-queue';
import { expect, test } from 'vitest';
import { exportedTasks, noExportedTasks, scratchDatabase } from './exported-tasks.ts';
import { openScene, pickled } from './scene.ts';

if (noExportedTasks !== null) console.log(`skipped: ${noExportedTasks}`);

test.skipIf(noExportedTasks !== null)(
  'every verifier of the exported tasks finds all of the interface it is written for',
  async () => {
    const args = pickled([], { final_answer: 'It is $1,200 at Hotel Zürich.' });
    const some = new PQueue({ concurrency: 4 });
    const outcomes = await some.addAll(
      exportedTasks().map(({ key, verifier_func }) => async () => {
        const { seed, changes } = scratchDatabase(verifier_func);
        using scene = openScene(seed, changes);
        const { success, error, result, stdout } = await scene.run(verifier_func, { args });
        return { key, success, result, error: error && `${error.type}: ${error.message}`, stdout };
      }),
    );
    expect(outcomes).toHaveLength(100);
    // The rows are made up, so a verifier may trip over a value in them; over what it calls it may not.
    const ofTheRows =
      /^(TypeError: .*(NoneType|'str'|'int')|KeyError|ValueError|AttributeError: '(str|int|NoneType)' object)/;
    const broken = outcomes.filter(({ error }) => error !== null && !ofTheRows.test(error));
    expect(broken).toEqual([]);
    expect(outcomes.filter(({ success }) => success).length).toBeGreaterThan(80);
    expect(outcomes.filter(({ result }) => result === 0).length).toBeGreaterThan(75);
    expect(outcomes.filter(({ stdout }) => stdout.includes('ERROR_ACCUMULATOR')).length).toBeGreaterThan(75);
  },
);
