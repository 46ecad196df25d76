package plugin

import (
	"context"
	"errors"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/folder"
	"github.com/chtc/gpureports/pkg/fresh"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// opened is what a data source has opened, as its settings say.
type opened struct {
	*stores.Stores
	settings Settings
	dir      *snapshots.Dir  // of the snapshots, or of the mirror
	mirror   *objects.Mirror // nil without a bucket
	bucket   *bucket.Bucket  // nil without one
	lists    fresh.Seen[pool.Lists]
}

// openStores opens what the settings name. Errors: a directory that is not allowed or cannot be opened, a bucket.
func openStores(ctx context.Context, instance backend.DataSourceInstanceSettings, settings Settings) (*opened, error) {
	if err := settings.allowDirs(); err != nil {
		return nil, err // a link can lead elsewhere than when the settings were saved
	}
	o := &opened{settings: settings}
	source, cacheName, err := o.openSnapshots(instance)
	if err != nil {
		return nil, errors.Join(err, o.closeBucket())
	}
	segments, err := o.openSegments(instance)
	if err != nil {
		return nil, errors.Join(err, source.Close(), o.closeBucket())
	}
	budget := stores.Divide(uint64(settings.CacheMaxMB) << 20)
	o.Stores = stores.New(timeline.New(timeline.Options{
		Source: source, MaxBytes: int64(budget.Days),
		CacheDir: settings.CacheDir, CacheName: cacheName, MaxDiskBytes: int64(settings.CacheDiskMB) << 20,
		Bucket: segments,
	}), budget)
	o.Queues = pressure.NewStore(pressure.Options{
		Root: o.dir.Root(), Path: o.dir.Path(), Names: o.Timeline.Names(), MaxBytes: int64(budget.Queues),
	})
	o.Ads = openAds(ctx, o.dir, instance, settings, jobs.NewCache(budget.Ads, time.Now),
		o.Timeline.Shared())
	return o, nil
}

// openSnapshots opens the directory or the bucket of the snapshots, without asking it anything.
func (s *opened) openSnapshots(instance backend.DataSourceInstanceSettings) (
	source snapshots.Source, cacheName string, err error) {
	if s.settings.SnapshotBucket == "" {
		if s.dir, err = snapshots.OpenDir(s.settings.SnapshotDir); err != nil {
			return nil, "", err
		}
		return registry.OpenDir(s.dir, s.settings.zone), registry.CacheName(s.dir, s.settings.zone), nil
	}
	options := s.settings.bucketOptions(s.settings.SnapshotBucket, instance.DecryptedSecureJSONData)
	if s.bucket, err = bucket.Open(options); err != nil {
		return nil, "", err
	}
	names := []string{s.settings.CHTCOwnedFile, s.settings.HostExclusionsFile, s.settings.GPUTiersFile}
	if s.settings.Jobs == jobsSQLite {
		names = append(names, s.settings.JobsPath)
	}
	if s.mirror, err = objects.OpenMirror(s.bucket, options, s.settings.CacheDir, names...); err != nil {
		return nil, "", err
	}
	if s.dir, err = snapshots.OpenDir(s.mirror.Path()); err != nil {
		return nil, "", err
	}
	source = registry.OpenBucket(s.bucket, s.settings.zone, s.mirror.Kept())
	return source, objects.CacheName(options, s.settings.zone), nil
}

// openSegments opens the bucket of what is made of finished days; nil: there is none.
func (s *opened) openSegments(instance backend.DataSourceInstanceSettings) (*bucket.Bucket, error) {
	if s.settings.SegmentBucket == "" {
		return nil, nil
	}
	return bucket.Open(s.settings.bucketOptions(s.settings.SegmentBucket, instance.DecryptedSecureJSONData))
}

// place returns where the snapshots are, and what they are stored in.
func (s *opened) place() (path, kind string) {
	if s.bucket != nil {
		return s.bucket.Name(), "object"
	}
	return resolve(s.dir.Path()), "month file"
}

// replaced reports whether a directory is not the one any more that was opened: what is read, or kept, would be of the
// old one for ever.
func (s *opened) replaced() bool {
	return folder.Replaced(s.dir.Root(), s.dir.Path()) || s.Timeline.CacheReplaced()
}

// Close closes everything that is open.
func (s *opened) Close() error { return errors.Join(s.Stores.Close(), s.closeBucket()) }

func (s *opened) closeBucket() error {
	if s.bucket == nil {
		return nil
	}
	s.bucket.Close()
	var err error
	if s.dir != nil { // without a bucket the timeline closes it
		err = s.dir.Close()
	}
	return errors.Join(err, s.mirror.Close())
}

// retry has buckets asked again that failed a moment ago.
func (s *opened) retry() {
	if s.bucket != nil {
		s.bucket.Patience().Retry()
	}
	if shared := s.Timeline.Shared(); shared != nil {
		shared.Retry()
	}
}

// env is what settings and list files say now.
func (s *opened) env(ctx context.Context) (query.Env, error) {
	lists, err := s.lists.Look(ctx, func() (pool.Lists, error) { return s.readLists(ctx) })
	return query.Env{Zone: s.settings.zone, SliceMinutes: s.settings.SliceMinutes, YearStart: s.settings.FiscalYearStart,
		Lists: lists}, err
}

// readLists reads the list files.
func (s *opened) readLists(ctx context.Context) (lists pool.Lists, err error) {
	if s.mirror != nil {
		if err := s.mirror.Refresh(ctx); err != nil {
			return lists, err
		}
	}
	if lists, err = s.dir.Lists(s.settings.CHTCOwnedFile, s.settings.HostExclusionsFile); err == nil {
		lists.Tiers, err = s.dir.Tiers(s.settings.GPUTiersFile)
	}
	return lists, err
}
