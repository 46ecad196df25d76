import { DataSourceJsonData } from '@grafana/data';

import type { ListFile } from './labels';

/** The collector's clock in one stretch of time. */
export interface ZoneChange {
  /** Local time, `YYYY-MM-DD HH:MM:SS`, at which the zone ends; the last entry has none. */
  until?: string;
  /** IANA name. */
  zone: string;
}

/** Where job ads come from. */
export type JobsSource = 'none' | 'sqlite' | 'elasticsearch';

/** The source of answers: the snapshots of a pool, or the facts that many pools publish. */
export type Mode = 'pool' | 'fleet';

/** How the plugin publishes a pool's facts each hour. */
export interface PublishTo {
  /** Name of the pool among the pools; missing: nothing is published. */
  pool?: string;
  /** Alias of the facts; default factsIndex. */
  index?: string;
}

/** How viewers see users and jobs; editors and administrators always see names. */
export type UserNames = 'full' | 'pseudonyms';

/** The secrets that Grafana encrypts, stored next to the settings. */
export interface GpuSecrets {
  /** The secret of the pseudonyms: at least 16 characters. */
  pseudonymSecret?: string;
  /** Keys to the bucket; none: those of the server's environment or machine. */
  bucketAccessKey?: string;
  bucketSecretKey?: string;
}

/** The data source's settings as Grafana stores them; a missing field means its default. */
export interface GpuSettings extends DataSourceJsonData, Partial<Record<ListFile, string>> {
  /** Default pool. */
  mode?: Mode;
  /** Alias of the facts in Elasticsearch. */
  factsIndex?: string;
  /** The plugin itself publishes the pool's facts; missing: it does not. */
  publishTo?: PublishTo;
  /** Absolute path of the directory with the monthly gpu_state_YYYY-MM files. */
  snapshotDir?: string;
  /** s3://bucket/prefix, instead of snapshotDir. */
  snapshotBucket?: string;
  /** s3://bucket/prefix that servers share finished days through. */
  segmentBucket?: string;
  /** URL of the S3 server; missing is Amazon's. */
  bucketEndpoint?: string;
  bucketRegion?: string;
  /** The bucket is part of the path, not of the host's name. */
  bucketPathStyle?: boolean;
  /** Certificates in PEM, in addition to the system's. */
  bucketCA?: string;
  /** Zone of the snapshots' timestamps; the last zone is the calendar's. Default UTC. */
  timezone?: string | ZoneChange[];
  /** Length of a slice in minutes: 5, 10, 15 (default), 30, 60, or 0 for every snapshot its own. */
  sliceMinutes?: number;
  /** Absolute path; missing or empty keeps the cache in memory only. */
  cacheDir?: string;
  cacheMaxMB?: number;
  cacheDiskMB?: number;
  /** Default none. */
  jobs?: JobsSource;
  jobsPath?: string;
  jobsIndex?: string;
  jobsEpochIndex?: string;
  /** Default full. */
  userNames?: UserNames;
  /** Whether names in tables lead to the shipped dashboards; default true. */
  links?: boolean;
}

/** The backend's defaults of missing settings. */
export const settingDefaults = {
  mode: 'pool',
  timezone: 'UTC',
  sliceMinutes: 15,
  jobsPath: 'jobs.db',
  cacheMaxMB: 512,
  cacheDiskMB: 2048,
  jobs: 'none',
  userNames: 'full',
  links: true,
} as const;

/** Whether answers need the Elasticsearch server: facts, or job ads. */
export function usesElasticsearch({ mode, jobs, factsIndex, publishTo }: GpuSettings): boolean {
  return mode === 'fleet' || jobs === 'elasticsearch' || factsIndex !== undefined || publishTo !== undefined;
}

/**
 * The settings without those whose fields are not shown: the backend would refuse or use what nobody can see. For example,
 * a data source of many pools has neither snapshots nor job ads and publishes no facts.
 */
export function shownOnly(settings: GpuSettings): GpuSettings {
  const shown = { ...settings };
  if (settings.mode === 'fleet') {
    for (const field of ofOnePool) {
      delete shown[field];
    }
  }
  if (shown.jobs !== 'sqlite') {
    delete shown.jobsPath;
  }
  if (shown.jobs !== 'elasticsearch') {
    delete shown.jobsIndex;
    delete shown.jobsEpochIndex;
  }
  return shown;
}

const ofOnePool = ['snapshotDir', 'snapshotBucket', 'publishTo', 'jobs'] as const;

export const sliceLengths = [15, 5, 10, 30, 60, 0];
