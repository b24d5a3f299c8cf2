import type Docker from 'dockerode';

export const cliDirectory = '/opt/rollpool';
/** Path of the agent CLI in a sandbox. */
export const cliMount = `${cliDirectory}/claude`;

/** The mount that shows the CLI of a volume where a bind mount would show it. */
export function cliVolumeMount(name: string, readOnly: boolean): Docker.MountSettings {
  return {
    Type: 'volume',
    Source: name,
    Target: cliDirectory,
    ReadOnly: readOnly,
    VolumeOptions: { NoCopy: true, Labels: {}, DriverConfig: { Name: 'local', Options: {} } },
  };
}
