// force timezone to UTC to allow tests to work regardless of local timezone
// generally used by snapshots, but can affect specific tests
process.env.TZ = 'UTC';

const base = require('./.config/jest.config');
const { grafanaESModules, nodeModulesToTransform } = require('./.config/jest/utils');
const [transform] = Object.values(base.transform);

const current = {
  // Jest configuration provided by Grafana scaffolding
  ...base,
  displayName: 'current',
  rootDir: __dirname,
  // d3-color and others ship .mjs
  transform: { '^.+\\.m?[tj]sx?$': transform },
};

// The editors once more on the oldest packages of Grafana that the plugin supports. React is there once.
const lowest = {
  ...current,
  displayName: 'lowest',
  testMatch: ['<rootDir>/src/editors/**/*.test.tsx'],
  moduleNameMapper: {
    ...base.moduleNameMapper,
    '^@grafana/(data|i18n|runtime|schema|ui)(/.*)?$': '<rootDir>/tests/lowest/node_modules/@grafana/$1$2',
  },
};

// And on the next generation, Grafana 13, with its own React.
const next = {
  ...lowest,
  displayName: 'next',
  moduleNameMapper: {
    ...base.moduleNameMapper,
    '^@grafana/(data|i18n|runtime|schema|ui)$': '<rootDir>/tests/next/node_modules/@grafana/$1',
    '^(react|react-dom|@testing-library/react|@testing-library/user-event)(/.*)?$':
      '<rootDir>/tests/next/node_modules/$1$2',
  },
  transformIgnorePatterns: [nodeModulesToTransform([...grafanaESModules, '@react-hookz', '@ver0'])],
};

module.exports = {
  // rendering Grafana's components in jsdom is slow on a busy machine
  testTimeout: 60_000,
  projects: [current, lowest, next],
};
