package plugin

import (
	"context"
	"errors"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// stores are what a data source has opened.
type stores struct {
	dir *snapshots.Dir
}

func openStores(_ context.Context, _ backend.DataSourceInstanceSettings, s Settings) (*stores, error) {
	dir, err := snapshots.OpenDir(s.SnapshotDir)
	if err != nil {
		return nil, err
	}
	return &stores{dir: dir}, nil
}

func (s *stores) close() error {
	return errors.Join(s.dir.Close())
}
