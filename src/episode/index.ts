export type { EpisodePorts, LaneParts, PolicyIdentity } from './ports.ts';
export { createRegradeProcessor } from './regrade.ts';
export { createEpisodeProcessor } from './run-episode.ts';
