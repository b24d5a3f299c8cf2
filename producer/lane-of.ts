import type { Lane, Task } from '../src/contracts/index.ts';

export type SandboxProvider = 'docker' | 'e2b' | 'local';

/** The lane a task's episodes go to: fleet tasks have one of their own, the others one for each provider of sandboxes. */
export function laneOf(task: Pick<Task, 'kind'>, options: { readonly sandbox: SandboxProvider }): Lane {
  return task.kind === 'fleet' ? 'fleet' : `claude_code-${options.sandbox}`;
}
