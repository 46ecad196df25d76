/** Texts of the editors that are not words of the query model; those come with the schema (query/labels.ts). */

export const valuesTexts = {
  contains: (text: string) => (text.includes('*') ? `Matches "${text}"` : `Contains "${text}"`),
  /** Offered after a `!` if it contains the typed text. */
  contained: (text: string) => `${text} (${text.includes('*') ? 'matching' : 'contained'})`,
  exact: (text: string) => `Exactly "${text}"`,
  failed: (reason: string) => `Failed to load values: ${reason}`,
  none: 'No values found',
  typeOne: 'No values found. Type one.',
  unmatched: (entries: string[]) => `No value in the time range matches ${entries.join(', ')}.`,
};

export const queryTexts = {
  type: 'Query type',
  typePlaceholder: 'Select a query type',
  view: 'View',
  groupBy: 'Group by',
  noGrouping: 'No grouping',
  metrics: 'Metrics',
  bucket: 'Bucket',
  bucketTooltip: 'Time span of each point',
  emptyVariable: (name: string) => `The variable ${name} has no value in this time range. Choose a longer time range.`,
  unusedFilters: (names: string[]) => `The dashboard's filter on ${names.join(', ')} does not apply to these figures.`,
  unusedGrouping: (name: string) => `These figures cannot be grouped by ${name}.`,
  unusedFilter: (name: string) => `These figures cannot be filtered by ${name}.`,
  defaultLinks: 'GPU dashboards',
  wrongPanel: (panel: string) => `A time series panel cannot show this answer. Switch the visualization to ${panel}.`,
};

export const optionTexts = {
  duration: 'Which duration is measured',
  durationPlaceholder: 'View default',
  timezone: 'Time zone for calendar buckets, for all viewers and alert rules',
  timezonePlaceholder: 'Data source default',
  jobHours: 'Comma-separated, in hours. A dashboard variable works too',
  overheadMinutes: 'Minutes that each checkpoint takes',
  withinMinutes: 'Minutes of the metric withinPercent, 1 to 10,080',
  shortMinutes: 'Minutes within which a run fails at once, 1 to 1,440',
  legend: 'Series name template, for example {{device}} {{metric}}',
  limit: 'Maximum number of series, rows or users. A notice reports what is left out',
  totals: 'Adds rows with totals at the end of the table',
  previous: 'Answers for the period of the same length that ends where the time range begins',
  last: 'Answers for this long up to now, such as 6h or 2d, whatever the time range',
  completeBucketsOnly: 'Omits buckets that are cut off or still incomplete',
};

export const settingTexts = {
  loading: 'Loading the settings …',
  scope: 'Scope',
  pool: 'Query one pool from its snapshots',
  fleet: 'Query several pools from the hourly facts they publish',
  links: 'Link names to dashboards',
  linksHelp: "Link machines, users, and devices in tables to the plugin's dashboards, if imported.",
  timezone:
    "Time zone of the snapshot timestamps, that is, of the collector's machine. Save & test warns if it doesn't match " +
    'the job IDs. The last zone also defines days and weeks.',
  fleetTimezone: 'Time zone of days and weeks.',
  oneZone: 'Single zone',
  changedZone: 'Changed over time',
  addZone: 'Add zone change',
};

/** The settings that name list files of the snapshot directory, in the order of the form, with the backend's defaults. */
export const listFiles = {
  chtcOwnedFile: {
    label: 'CHTC-owned machines',
    byDefault: 'chtc_owned',
    description:
      'File with one host name per line; # begins a comment. These machines are CHTC-owned ' +
      'regardless of their projects.',
  },
  hostExclusionsFile: {
    label: 'Excluded hosts',
    byDefault: 'masked_hosts.yaml',
    description:
      'YAML file with excluded_hosts: {part of a host name: reason}. Excluded hosts are left out ' +
      'of all figures, and every answer reports them.',
  },
  gpuTiersFile: {
    label: 'GPU tiers',
    byDefault: 'gpu_tiers.yaml',
    description:
      'YAML file with tiers: {name: [parts of device names]}; all other devices are Standard. ' +
      'Without a file, H200, H100 80GB HBM3 and A100-SXM4-80GB are Flagship.',
  },
  gpuNamesFile: {
    label: 'GPU names',
    byDefault: 'gpu_names.yaml',
    description: 'YAML file with names: {stored name: display name} for devices in tables and legends.',
  },
  projectNamesFile: {
    label: 'Project names',
    byDefault: 'project_names.yaml',
    description:
      'YAML file with projects: {name in PrioritizedProjects: [names in ChtcProjects]}, for projects whose ' +
      'machines and jobs have different names.',
  },
};

export type ListFile = keyof typeof listFiles;

/** The names that the form gives to settings, by which the health check's sentences call them too. */
export const settingLabels: Record<string, string> = {
  snapshotDir: 'Directory',
  sliceMinutes: 'Slice length',
  ...Object.fromEntries(Object.entries(listFiles).map(([name, { label }]) => [name, label])),
  cacheDir: 'Cache directory',
  cacheMaxMB: 'Memory',
  cacheDiskMB: 'Disk',
  snapshotBucket: 'Snapshot bucket',
  segmentBucket: 'Shared cache bucket',
  bucketEndpoint: 'Endpoint',
  bucketRegion: 'Region',
  bucketPathStyle: 'Path-style access',
  bucketCA: 'CA certificates',
  bucketAccessKey: 'Access key',
  bucketSecretKey: 'Secret key',
  timezone: 'Time zone',
  jobsPath: 'Job file',
  jobsIndex: 'History index',
  jobsEpochIndex: 'Epoch index',
  factsIndex: 'Facts index',
  'publishTo.pool': 'Pool name',
  'publishTo.index': 'Target index',
  pseudonymSecret: 'Secret',
};

const settingNames = new RegExp(`\\b(${Object.keys(settingLabels).join('|').replaceAll('.', '\\.')})\\b`, 'g');

/** Sentences of the backend with the form's names of settings instead of those of provisioning. */
export function withSettingLabels(text: string): string {
  return text.replace(settingNames, (name) => settingLabels[name] ?? name);
}

export const bucketTexts = {
  section:
    'S3 buckets shared by several Grafana servers. A server administrator must allow them (allowed_buckets). Both use ' +
    'the same S3 server and keys.',
  snapshotsHelp: 'Name and prefix of the Parquet files. Use this instead of Directory.',
  segmentsHelp: 'The first server that needs a finished day computes it; the others reuse it.',
  endpoint: 'URL of the S3 server. Leave empty for Amazon S3.',
  region: "Leave empty for the server's default.",
  pathStyleHelp: 'Most Ceph installations need this.',
  certificates: "PEM certificate of the CA, if the system doesn't trust it.",
  keys: "Leave both keys empty to use the server's own credentials, if allowed and forwarded to the plugin.",
};

export const factsTexts = {
  ofPool: 'Hourly aggregates that this pool publishes to Elasticsearch for fleet data sources.',
  ofFleet: 'Hourly aggregates that the pools publish. Time ranges are rounded to full hours.',
  poolHelp: 'Facts are published under this name every hour. Leave empty to disable.',
  indexHelp: 'Defaults to Facts index.',
};

export const privacyTexts = {
  section: 'Choose whether viewers see user and job names. Editors and admins always do.',
  names: 'Pseudonyms such as “User 482913377” also apply to variables, annotations, and alerts.',
  secret: 'At least 16 random characters. Changing the secret changes every pseudonym.',
};

export const snapshotTexts = {
  slice:
    'A GPU counts once per slice. Choose a slice no longer than the collector interval; otherwise GPU hours are too high.',
  lists: 'Files in the snapshot directory. Missing default files are ignored.',
  cache: 'Keeps the data read from the snapshots, so that queries over a year return almost instantly.',
};

export const elasticsearchTexts = {
  section: 'Elasticsearch server that hosts these indices.',
  url: 'URL as seen from the Grafana server',
  help: (label: string) => `Help on ${label}`,
};
