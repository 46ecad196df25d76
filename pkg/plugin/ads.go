package plugin

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/httpclient"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/elasticsearch"
	"github.com/chtc/gpureports/pkg/jobs/sqlite"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// openAds opens the job source that the settings name; nil if there is none. A source that cannot be used reports the
// reason in its answers, so that queries that need no job ads are answered.
func openAds(ctx context.Context, dir *snapshots.Dir, instance backend.DataSourceInstanceSettings, settings Settings,
	kept *jobs.Cache, shared *segcache.Shared) jobs.Source {
	var source jobs.Source
	var key string
	var with jobs.Sharing // a job file is local anyway
	var err error
	switch settings.Jobs {
	case jobsNone:
		return nil
	case jobsSQLite:
		path := dir.Join(settings.JobsPath)
		source, key = sqlite.Open(path), jobs.Key(jobsSQLite, path)
		if _, found := dir.Root().Stat(settings.JobsPath); found != nil && !errors.Is(found, fs.ErrNotExist) {
			err = pool.SourceError("job file %s in the snapshot directory cannot be used: %w", settings.JobsPath, found)
		}
	case jobsElasticsearch:
		source, key, err = openElasticsearch(ctx, instance, settings)
		if err == nil && shared != nil {
			with.Through = shared
			with.Source, err = sharedKey(key)
		}
	}
	if err != nil {
		return unreachable{err}
	}
	return kept.Source(source, key, openAdsOnDisk(settings, key), with)
}

// sharedKey makes a source's key fit for a bucket, which others may read: the key depends on passwords, which must not
// be found by trying many.
func sharedKey(key string) (string, error) {
	const rounds = 200_000
	derived, err := pbkdf2.Key(sha256.New, key, []byte("gpureports job ads"), rounds, sha256.Size)
	return hex.EncodeToString(derived), err
}

// openAdsOnDisk opens the disk cache of job ads, which is in the segments' directory; nil without a cache directory. If
// it cannot be used, the health check reports that with the segments.
func openAdsOnDisk(settings Settings, key string) *segcache.Disk {
	if settings.CacheDir == "" {
		return nil
	}
	disk, _ := segcache.OpenDisk(settings.CacheDir, "ads "+key, int64(settings.CacheDiskMB)<<20)
	return disk
}

// openElasticsearch uses the data source's own HTTP settings: URL, authentication, TLS, headers, proxy.
func openElasticsearch(ctx context.Context, instance backend.DataSourceInstanceSettings,
	settings Settings) (jobs.Source, string, error) {
	transport, leave, err := openTransport(ctx, instance)
	if err != nil {
		return nil, "", err
	}
	source, err := elasticsearch.New(elasticsearch.Config{
		URL: instance.URL, Transport: transport, Index: settings.JobsIndex, EpochIndex: settings.JobsEpochIndex,
	})
	if err != nil {
		return nil, "", err
	}
	// another user may see other documents
	secrets, err := json.Marshal(instance.DecryptedSecureJSONData)
	if err != nil {
		return nil, "", err
	}
	key := jobs.Key(jobsElasticsearch, instance.URL, settings.JobsIndex, settings.JobsEpochIndex, instance.BasicAuthUser,
		instance.User, string(instance.JSONData), string(secrets))
	return remote{source, leave}, key, nil
}

// openTransport returns the client that applies the data source's own HTTP settings to requests, and a function that
// closes its idle connections.
func openTransport(ctx context.Context, instance backend.DataSourceInstanceSettings) (client http.RoundTripper,
	leave func(), err error) {
	leave = func() {}
	options, err := instance.HTTPClientOptions(ctx)
	if err != nil {
		return nil, leave, pool.BadQuery("the HTTP settings of Elasticsearch cannot be used: %w", err)
	}
	options.ConfigureTransport = func(_ httpclient.Options, transport *http.Transport) {
		leave = transport.CloseIdleConnections
	}
	client, err = httpclient.GetTransport(options)
	if err != nil {
		return nil, leave, pool.BadQuery("the TLS or proxy settings of Elasticsearch cannot be used: %w", err)
	}
	return client, leave, nil
}

// remote closes the connections that it leaves idle.
type remote struct {
	jobs.Source
	leave func()
}

func (r remote) Close() error {
	defer r.leave()
	return r.Source.Close()
}

// unreachable is a job source that cannot be used; it returns the reason to every caller.
type unreachable struct{ err error }

func (u unreachable) Ads(context.Context, []jobs.Wanted) (jobs.Result, error) {
	return jobs.Result{}, u.err
}
func (u unreachable) AdsOnMachines(context.Context, []jobs.MachineDay) (jobs.Result, error) {
	return jobs.Result{}, u.err
}
func (u unreachable) Epochs(context.Context, []jobs.EpochDay) (jobs.Result, error) {
	return jobs.Result{}, u.err
}
func (u unreachable) Newest(context.Context) (time.Time, error)   { return time.Time{}, u.err }
func (u unreachable) Health(context.Context) (jobs.Health, error) { return jobs.Health{}, u.err }
func (u unreachable) Close() error                                { return nil }
