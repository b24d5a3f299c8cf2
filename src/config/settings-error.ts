/** One thing wrong with the environment. `variable` is the variable, or the flag that went over it. */
export interface SettingsFault {
  readonly variable: string;
  readonly problem: string;
}

/** Every fault of the environment at once. The message has a line for each and holds no secret; entry points print it and exit 2. */
export class SettingsError extends Error {
  readonly faults: readonly SettingsFault[];

  constructor(faults: readonly SettingsFault[]) {
    super(
      ['bad settings:', ...faults.map(({ variable, problem }) => `  ${variable}: ${problem}`)].join('\n'),
    );
    this.name = 'SettingsError';
    this.faults = faults;
  }
}
