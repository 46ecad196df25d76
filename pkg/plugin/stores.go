package plugin

import (
	"context"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots"
	snapshotstores "github.com/chtc/gpureports/pkg/snapshots/stores"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// opened is what a data source has opened, as its settings say.
type opened struct {
	*stores.Stores
	settings Settings
	dir      *snapshots.Dir // closed by the timeline
}

func openStores(ctx context.Context, instance backend.DataSourceInstanceSettings, settings Settings) (*opened, error) {
	dir, err := snapshots.OpenDir(settings.SnapshotDir)
	if err != nil {
		return nil, err
	}
	budget := stores.Divide(uint64(settings.CacheMaxMB) << 20)
	s := stores.New(timeline.New(timeline.Options{
		Source: snapshotstores.OpenDir(dir, settings.zone), MaxBytes: int64(budget.Days),
		CacheDir: settings.CacheDir, CacheName: snapshotstores.CacheName(dir, settings.zone),
		MaxDiskBytes: int64(settings.CacheDiskMB) << 20,
	}), budget)
	s.Queues = pressure.NewStore(pressure.Options{
		Root: dir.Root(), Path: settings.SnapshotDir, Names: s.Timeline.Names(), MaxBytes: int64(budget.Queues),
	})
	s.Ads = openAds(ctx, dir, instance, settings, jobs.NewCache(budget.Ads, time.Now))
	return &opened{s, settings, dir}, nil
}

// env is what settings and list files say now.
func (s *opened) env() (query.Env, error) {
	lists, err := s.dir.Lists(s.settings.CHTCOwnedFile, s.settings.HostExclusionsFile)
	if err == nil {
		lists.Tiers, err = s.dir.Tiers(s.settings.GPUTiersFile)
	}
	return query.Env{Zone: s.settings.zone, SliceMinutes: s.settings.SliceMinutes, YearStart: s.settings.FiscalYearStart,
		Lists: lists}, err
}
