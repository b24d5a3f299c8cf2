export { configurationPage } from './documentation.ts';
export type { Concurrency } from './parsers.ts';
export { loadSettings, type Settings } from './settings.ts';
export { SettingsError, type SettingsFault } from './settings-error.ts';
export type { SettingsOverrides } from './sources.ts';
