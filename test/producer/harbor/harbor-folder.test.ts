import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TasksFileError } from '../../../producer/index.ts';
import { goodTask, readAll, taskPlace, toml, writeTask } from './task-directory.ts';

const { directory, root } = taskPlace();

describe('a folder of Harbor tasks', () => {
  it('has them one or two levels below, in the order of their names', async () => {
    const folder = join(root(), 'dataset');
    for (const name of ['b', 'a/two', 'a/one', '.git/x', 'deep/er/still', 'node_modules/x']) {
      await writeTask(join(folder, name));
    }
    await writeTask(join(folder, 'c'), { 'task.toml': null });
    await writeTask(
      join(folder, 'notes'),
      Object.fromEntries(Object.keys(goodTask).map((path) => [path, null])),
    );
    const { tasks, report } = await readAll(folder);
    expect(tasks.map(({ task_key }) => task_key)).toEqual(['one', 'two', 'b']);
    expect(report).toMatchObject({ read: 4, loaded: 3, refused: 1, format: 'Harbor task directories' });
    expect(report.faults).toMatchObject([
      { file: `${folder}/c/task.toml`, index: 3, task_key: 'c', line: null },
    ]);
    expect((await readAll(folder, { limit: 2 })).tasks).toHaveLength(2);
    await expect(readAll(folder, { strict: true })).rejects.toThrow(
      `${folder}: 1 of 4 tasks have faults\n  ${folder}/c/task.toml: task 3 (c): there is no such file`,
    );
  });

  it('takes the first of two tasks of one name', async () => {
    const folder = join(root(), 'twice');
    await writeTask(join(folder, 'a'), toml('[task]\nname = "acme/x"'));
    await writeTask(join(folder, 'b'), toml('[task]\nname = "acme/x"'));
    const { tasks, report } = await readAll(folder);
    expect(tasks).toHaveLength(1);
    expect(report).toMatchObject({ loaded: 1, refused: 1, duplicates: 1 });
    expect(report.faults).toMatchObject([
      {
        file: `${folder}/b`,
        field: 'task.name',
        reason: `task 0 (${folder}/a) has the same key; the first one is taken`,
      },
    ]);
  });

  it('says nothing of what is left aside in tasks that are refused', async () => {
    const path = await directory(toml('[environment]\ngpus = 1\nskills_dir = "/x"'));
    expect((await readAll(path)).report.warnings).toEqual([]);
  });

  it('without any task is refused as a whole', async () => {
    const folder = join(root(), 'empty');
    await writeTask(join(folder, 'x'), Object.fromEntries(Object.keys(goodTask).map((path) => [path, null])));
    await expect(readAll(folder)).rejects.toThrow(TasksFileError);
    await expect(readAll(folder)).rejects.toThrow(`${folder}: is a directory without a Harbor task`);
  });
});
