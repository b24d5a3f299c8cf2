import { z } from 'zod';
import { resultSchema, taskSchema } from '../src/contracts/index.ts';

function render(id: string, title: string, schema: z.ZodType, io: 'input' | 'output'): string {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io });
  return `${JSON.stringify({ $schema, $id: id, title, ...rest }, null, 2)}\n`;
}

/**
 * The published JSON Schemas, file name -> text. A task is described as people write it (what has a default may be
 * left out), a result as it is written.
 */
export function jsonSchemas(): Record<string, string> {
  return {
    'task.json': render('rollpool.task/1', 'rollpool task', taskSchema, 'input'),
    'result.json': render('rollpool.result/1', 'rollpool result', resultSchema, 'output'),
  };
}
