// force timezone to UTC to allow tests to work regardless of local timezone
// generally used by snapshots, but can affect specific tests
process.env.TZ = 'UTC';

const base = require('./.config/jest.config');
const [transform] = Object.values(base.transform);

module.exports = {
  // Jest configuration provided by Grafana scaffolding
  ...base,
  // rendering Grafana's components in jsdom is slow on a busy machine
  testTimeout: 60_000,
  // d3-color and others ship .mjs
  transform: { '^.+\\.m?[tj]sx?$': transform },
};
