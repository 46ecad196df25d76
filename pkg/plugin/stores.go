package plugin

import (
	"context"
	"errors"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/snapshots"
	snapshotstores "github.com/chtc/gpureports/pkg/snapshots/stores"
	"github.com/chtc/gpureports/pkg/timeline"
	"github.com/chtc/gpureports/pkg/userhours"
)

// stores are what a data source has opened.
type stores struct {
	settings Settings
	dir      *snapshots.Dir
	timeline *timeline.Timeline // closes dir
	ads      jobs.Source        // nil: none
	queues   *pressure.Store
}

func openStores(ctx context.Context, instance backend.DataSourceInstanceSettings, settings Settings) (*stores, error) {
	dir, err := snapshots.OpenDir(settings.SnapshotDir)
	if err != nil {
		return nil, err
	}
	s := &stores{
		settings: settings,
		dir:      dir,
		timeline: timeline.New(timeline.Options{
			Source: snapshotstores.OpenDir(dir, settings.zone), MaxBytes: int64(settings.CacheMaxMB) << 20,
			CacheDir: settings.CacheDir, CacheName: snapshotstores.CacheName(dir, settings.zone),
			MaxDiskBytes: int64(settings.CacheDiskMB) << 20,
		}),
		ads: openAds(ctx, dir, instance, settings),
	}
	s.queues = pressure.NewStore(pressure.Options{Root: dir.Root(), Path: settings.SnapshotDir, Names: s.timeline.Names(), MaxBytes: int64(settings.CacheMaxMB) << 18})
	return s, nil
}

func (s *stores) close() error {
	err := errors.Join(s.queues.Close(), s.timeline.Close())
	runs.Forget(s.timeline)
	if s.ads != nil {
		err = errors.Join(err, s.ads.Close())
	}
	return err
}

// env is what settings and list files say now.
func (s *stores) env() (query.Env, error) {
	lists, err := s.dir.Lists(s.settings.CHTCOwnedFile, s.settings.HostExclusionsFile)
	return query.Env{Zone: s.settings.zone, SliceMinutes: s.settings.SliceMinutes, Lists: lists}, err
}

// answer computes a query by its kind.
func (s *stores) answer(ctx context.Context, r query.Request) (data.Frames, error) {
	env, err := s.env()
	if err != nil {
		return nil, err
	}
	switch r.QueryType {
	case "allocation":
		return allocation.AnswerWithJobs(ctx, s.timeline, env, r, s.jobFigures())
	case "userHours":
		return userhours.Answer(ctx, s.timeline, env, r)
	case "backfillAvailability":
		return backfill.Answer(ctx, s.timeline, s.ads, env, r)
	case "evictions":
		return evictions.Answer(ctx, s.timeline, s.ads, env, r)
	case "demand":
		return demand.Answer(ctx, s.timeline, s.queues, s.ads, env, r)
	}
	_, err = r.Plan(env) // says which kinds there are
	return nil, err
}
