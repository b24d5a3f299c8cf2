export type { EpisodePorts, LaneParts, PolicyIdentity } from './ports.ts';
export { createEpisodeProcessor } from './run-episode.ts';
