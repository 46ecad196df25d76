package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/httpclient"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/elasticsearch"
	"github.com/chtc/gpureports/pkg/jobs/sqlite"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
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
}

// adsOnDisk divides cacheDiskMB: job ads have one part of it, finished days the others.
const adsOnDisk = 8

// openStores opens the stores that the settings name. Errors: a directory that is not allowed or cannot be opened, a
// bucket.
func (d *Datasource) openStores(ctx context.Context) (*opened, error) {
	settings := d.parsed
	if err := settings.allowDirs(); err != nil {
		return nil, err // a link can lead elsewhere than when the settings were saved
	}
	o := &opened{settings: settings, instance: d.settings, since: time.Now()}
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
	onDisk := int64(settings.CacheDiskMB) << 20
	o.Stores = stores.New(timeline.New(timeline.Options{
		Source: source, MaxBytes: int64(budget.Days),
		CacheDir: settings.CacheDir, CacheName: cacheName, MaxDiskBytes: onDisk - onDisk/adsOnDisk, Bucket: segments,
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

// openAds opens the job source that the settings name; nil if there is none. A source that cannot be used reports the
// reason in its answers, so that queries that need no job ads are answered.
func (s *opened) openAds(ctx context.Context, kept *jobs.Cache) jobs.Source {
	var source jobs.Source
	var key string
	var err error
	switch s.settings.Jobs {
	case jobsNone:
		return nil
	case jobsSQLite:
		path := s.dir.Join(s.settings.JobsPath)
		source, key = sqlite.Open(path), segcache.Key(jobsSQLite, path)
		if _, found := s.dir.Root().Stat(s.settings.JobsPath); found != nil && !errors.Is(found, fs.ErrNotExist) {
			err = pool.SourceError("job file %s in the snapshot directory cannot be used: %w", s.settings.JobsPath, found)
		}
	case jobsElasticsearch:
		source, key, err = s.openElasticsearch(ctx)
	}
	if err != nil {
		return unreachable{err}
	}
	var disk *segcache.Disk // in the segments' directory; if it cannot be used, the health check reports that with them
	if s.settings.CacheDir != "" {
		disk, _ = segcache.OpenDisk(s.settings.CacheDir, "ads "+key, int64(s.settings.CacheDiskMB)<<20/adsOnDisk)
	}
	return kept.Source(source, key, disk)
}

func (s *opened) openElasticsearch(ctx context.Context) (source jobs.Source, key string, err error) {
	instance := s.instance
	transport, err := openTransport(ctx, instance)
	if err != nil {
		return nil, "", err
	}
	source, err = elasticsearch.New(elasticsearch.Config{
		URL: instance.URL, Transport: transport, Index: s.settings.JobsIndex, EpochIndex: s.settings.JobsEpochIndex,
	})
	if err != nil {
		return nil, "", err
	}
	// another user may see other documents
	secrets, err := json.Marshal(instance.DecryptedSecureJSONData)
	key = segcache.Key(jobsElasticsearch, s.settings.organization, instance.URL, s.settings.JobsIndex,
		s.settings.JobsEpochIndex, instance.BasicAuthUser, instance.User, string(instance.JSONData), string(secrets))
	return source, key, err
}

// openTransport returns the client that applies the data source's own HTTP settings: URL, authentication, TLS, headers,
// proxy. Its idle connections end by themselves, after 90 seconds if the settings say nothing else.
func openTransport(ctx context.Context, instance backend.DataSourceInstanceSettings) (http.RoundTripper, error) {
	options, err := instance.HTTPClientOptions(ctx)
	if err != nil {
		return nil, pool.BadQuery("the HTTP settings of Elasticsearch cannot be used: %w", err)
	}
	client, err := httpclient.GetTransport(options)
	if err != nil {
		return nil, pool.BadQuery("the TLS or proxy settings of Elasticsearch cannot be used: %w", err)
	}
	return client, nil
}

// unreachable is a job source that cannot be used; it returns the reason to every caller.
type unreachable struct{ err error }

func (u unreachable) Ads(context.Context, []jobs.Wanted) (jobs.Result, error) {
	return jobs.Result{}, u.err
}
func (u unreachable) AdsOnMachines(context.Context, []jobs.MachineDay) (jobs.Result, error) {
	return jobs.Result{}, u.err
}
func (u unreachable) Newest(context.Context) (time.Time, error)   { return time.Time{}, u.err }
func (u unreachable) Health(context.Context) (jobs.Health, error) { return jobs.Health{}, u.err }

var errDisposed = errors.New("the data source was closed while its settings were saved: ask again")

// refCounted opens a resource that requests share with the first request, and closes it when no request uses it any
// more and none will come. It does so without holding its lock, because a file system can hang. It is safe for
// concurrent use.
type refCounted[T io.Closer] struct {
	open   func(context.Context) (T, error)
	failed func(error) // called with an error of closing

	mu      sync.Mutex
	current *reference[T] // nil: nothing is open or being opened
	closed  bool          // no more requests will come
}

// reference is something that is open or being opened.
type reference[T io.Closer] struct {
	opened chan struct{} // closed when of and err are final
	of     T
	err    error
	users  int // requests under way, and the opening
}

// take returns the open resource for one request, which must leave it at its end. If that is replaced, the reference
// that the caller still uses, it is reopened.
func (r *refCounted[T]) take(ctx context.Context, replaced *reference[T]) (*reference[T], error) {
	r.mu.Lock()
	if r.closed && r.current == nil {
		r.mu.Unlock()
		return nil, errDisposed
	}
	if r.current == nil || r.current == replaced && !r.closed {
		r.current = r.start(ctx)
	}
	taken := r.current
	taken.users++
	r.mu.Unlock()
	var err error
	select {
	case <-taken.opened:
		err = taken.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		r.leave(taken)
		return nil, err
	}
	return taken, nil
}

// start begins to open the resource. Because other requests wait for it as well, it continues when ctx ends.
func (r *refCounted[T]) start(ctx context.Context) *reference[T] {
	started := &reference[T]{opened: make(chan struct{}), users: 1}
	parallel.Go(func() (err error) {
		started.of, err = r.open(context.WithoutCancel(ctx))
		return err
	}, func(err error) {
		r.mu.Lock()
		if started.err = err; err != nil && r.current == started {
			r.current = nil // the next request tries again
		}
		r.mu.Unlock()
		r.leave(started)
		close(started.opened)
	})
	return started
}

func (r *refCounted[T]) leave(used *reference[T]) {
	r.mu.Lock()
	used.users--
	r.unlock(used)
}

// close closes the resource: immediately, or with the last request that uses it.
func (r *refCounted[T]) close() {
	r.mu.Lock()
	r.closed = true
	r.unlock(r.current)
}

// unlock releases r.mu, and then closes a reference that is unused and will not be requested again.
func (r *refCounted[T]) unlock(used *reference[T]) {
	unused := used != nil && used.users == 0 && (r.closed || used != r.current)
	if unused && used == r.current {
		r.current = nil
	}
	r.mu.Unlock()
	if unused && used.err == nil {
		if err := used.of.Close(); err != nil {
			r.failed(err)
		}
	}
}
