/** Template of tasks that name none, where no other is set: `rollpool template build` makes it. */
export const defaultTemplate = 'rollpool-claude-code';
