package plugin

import (
	"context"
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
)

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
		_, adsOnDisk := s.settings.diskBudget()
		disk, _ = segcache.OpenDisk(s.settings.CacheDir, "ads "+key, adsOnDisk)
	}
	return kept.Source(source, key, disk)
}

// diskBudget divides the bytes of cacheDiskMB: job ads have an eighth of them, days the others.
func (s *Settings) diskBudget() (days, ads int64) {
	all := int64(s.CacheDiskMB) << 20
	return all - all/8, all / 8
}

// openElasticsearch uses the data source's own HTTP settings: URL, authentication, TLS, headers, proxy.
func (s *opened) openElasticsearch(ctx context.Context) (source jobs.Source, key string, err error) {
	instance := s.instance
	var transport http.RoundTripper
	if transport, s.leave, err = openTransport(ctx, instance); err != nil {
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
func (u unreachable) Close() error                                { return nil }
