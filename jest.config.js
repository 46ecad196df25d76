// force timezone to UTC to allow tests to work regardless of local timezone
// generally used by snapshots, but can affect specific tests
process.env.TZ = 'UTC';

const base = require('./.config/jest.config');
const [transform] = Object.values(base.transform);

module.exports = {
  // Jest configuration provided by Grafana scaffolding
  ...base,
  // d3-color and others ship .mjs
  transform: { '^.+\\.m?[tj]sx?$': transform },
};
