export type { FieldFault } from './field-fault.ts';
export { laneOf, type SandboxProvider } from './lane-of.ts';
export { normaliseTask, type Normalised } from './normalise-task.ts';
export { planProduce, produce, type Produced, type ProduceOptions, type ProducePlan } from './produce.ts';
export {
  describeFault,
  faultsKept,
  readTasks,
  type ReadTasksOptions,
  type TaskFault,
  type TaskReading,
  type TasksReport,
} from './read-tasks.ts';
export { tasksContent } from './tasks-content.ts';
export { TasksFileError } from './tasks-file-error.ts';
