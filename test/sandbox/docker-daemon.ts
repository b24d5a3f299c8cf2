import Docker from 'dockerode';

export const docker = new Docker();
export const testImage = 'rollpool-sandbox:bookworm';

async function whyNot(): Promise<string | null> {
  try {
    await docker.ping();
  } catch (error) {
    return `no Docker daemon answers (${(error as Error).message})`;
  }
  try {
    await docker.getImage(testImage).inspect();
  } catch {
    return `${testImage} is not there: scripts/build-sandbox-image builds it`;
  }
  return null;
}

const reason = await whyNot();
if (reason !== null) {
  if (process.env['ROLLPOOL_TEST_REQUIRE_DOCKER'] === '1') throw new Error(reason);
  console.warn(`skipping the tests that need Docker: ${reason}`);
}

/** Whether tests that need Docker can run. With ROLLPOOL_TEST_REQUIRE_DOCKER=1 they must. */
export const haveDocker = reason === null;
