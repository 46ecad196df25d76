package plugin

import (
	"context"
	"errors"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// opened has the open stores of a data source, according to its settings.
type opened struct {
	*stores.Stores
	settings Settings
	instance backend.DataSourceInstanceSettings
	dir      *snapshots.Dir  // the snapshots', or the mirror's
	mirror   *objects.Mirror // nil without a bucket
	bucket   *bucket.Bucket  // nil if there is none
	names    int64           // bytes that texts may take
	since    time.Time       // when the stores were opened
	leave    func()          // closes idle connections to Elasticsearch
}

// openStores opens the stores that the settings name. Errors: a directory that is not allowed or cannot be opened, a
// bucket.
func (d *Datasource) openStores(ctx context.Context) (*opened, error) {
	settings := d.parsed
	if err := settings.allowDirs(); err != nil {
		return nil, err // a link can lead elsewhere than when the settings were saved
	}
	o := &opened{settings: settings, instance: d.settings, since: time.Now(), leave: func() {}}
	source, cacheName, err := o.openSnapshots()
	if err != nil {
		return nil, errors.Join(err, o.closeBucket())
	}
	if d.once {
		source.Recheck()
	}
	var segments *bucket.Bucket // for data derived from finished days
	if settings.SegmentBucket != "" {
		segments, err = bucket.Open(settings.bucketOptions(settings.SegmentBucket, d.settings.DecryptedSecureJSONData))
		if err != nil {
			return nil, errors.Join(err, source.Close(), o.closeBucket())
		}
	}
	budget := stores.Divide(uint64(settings.CacheMaxMB) << 20)
	o.names = int64(budget.Names)
	daysOnDisk, _ := settings.diskBudget()
	o.Stores = stores.New(timeline.New(timeline.Options{
		Source: source, MaxBytes: int64(budget.Days),
		CacheDir: settings.CacheDir, CacheName: cacheName, MaxDiskBytes: daysOnDisk,
		Bucket: segments,
	}), budget)
	o.Queues = queues.NewStore(queues.Options{
		Root: o.dir.Root(), Path: o.dir.Path(), Names: o.Timeline.Names, MaxBytes: int64(budget.Queues),
		Parquet: registry.QueueRows,
	})
	o.Ads = o.openAds(ctx, jobs.NewCache(budget.Ads, time.Now))
	return o, nil
}

// openSnapshots opens the directory or the bucket of the snapshots, without asking it anything.
func (s *opened) openSnapshots() (source snapshots.Source, cacheName string, err error) {
	if s.settings.SnapshotBucket == "" {
		if s.dir, err = snapshots.OpenDir(s.settings.SnapshotDir); err != nil {
			return nil, "", err
		}
		return registry.OpenDir(s.dir, s.settings.zone), registry.CacheName(s.dir, s.settings.zone), nil
	}
	options := s.settings.bucketOptions(s.settings.SnapshotBucket, s.instance.DecryptedSecureJSONData)
	if s.bucket, err = bucket.Open(options); err != nil {
		return nil, "", err
	}
	var names []string
	for _, f := range s.settings.ListFiles.All() {
		names = append(names, *f.Name)
	}
	if s.settings.Jobs == jobsSQLite {
		names = append(names, s.settings.JobsPath)
	}
	if s.mirror, err = objects.OpenMirror(s.bucket, options, s.settings.CacheDir, names...); err != nil {
		return nil, "", err
	}
	if s.dir, err = snapshots.OpenDir(s.mirror.Path()); err != nil {
		return nil, "", err
	}
	return objects.Open(s.bucket, s.settings.zone), objects.CacheName(options, s.settings.zone), nil
}

// outdated reports whether the stores must be opened again: an opened directory has been replaced by another, and reads
// and writes would go to the old one for ever; or texts take more than their share of memory. Most of these are of
// segments and queues that are no longer kept then, and new stores do without them. At most once an hour: some are in
// use.
func (s *opened) outdated() bool {
	return s.Timeline.Names.Bytes() > s.names && time.Since(s.since) > time.Hour ||
		segcache.Replaced(s.dir.Root(), s.dir.Path()) || s.Timeline.CacheReplaced()
}

// Close closes everything that is open.
func (s *opened) Close() error {
	defer s.leave()
	return errors.Join(s.Stores.Close(), s.closeBucket())
}

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

// retry makes buckets that have just failed be requested again, and known snapshots be compared with them.
func (s *opened) retry() {
	s.Timeline.Source.Recheck()
	if s.bucket != nil {
		s.bucket.Breaker.Retry()
	}
	if shared := s.Timeline.Shared; shared != nil {
		shared.Retry()
	}
}

// env is the current environment of queries, from the settings and the list files.
func (s *opened) env(ctx context.Context) (query.Env, error) {
	if s.mirror != nil {
		if err := s.mirror.Refresh(ctx); err != nil {
			return query.Env{}, err
		}
	}
	lists, err := s.dir.Lists(s.settings.ListFiles)
	return query.Env{Zone: s.settings.zone, SliceMinutes: s.settings.SliceMinutes, YearStart: s.settings.FiscalYearStart,
		Lists: lists}, err
}
