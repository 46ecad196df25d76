package counts

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Use is how a GPU is used, by its rows on both sides at one time. State timelines show these numbers.
type Use int8

// How a GPU is used.
const (
	UseNone Use = iota - 1 // no row
	UseFree
	UsePrimary  // claimed by a primary slot
	UseBackfill // claimed by a backfill slot
	UseDrained
	UsePrevented
	UseOther
	Uses int = iota - 1 // their number, without none
)

func (u Use) String() string {
	return [...]string{"Free", "Claimed", "Backfill", "Drained", "Prevented", "Other"}[u]
}

// UseOf returns how a GPU is used, the first that fits, and the side whose row says so.
func UseOf(rows [2]*timeline.Row) (Use, pool.Side) {
	side := pool.Primary
	if primary := rows[pool.Primary].State; primary == pool.None ||
		primary != pool.Claimed && rows[pool.Backfill].State == pool.Claimed {
		side = pool.Backfill
	}
	switch row := rows[side]; {
	case row.State == pool.None:
		return UseNone, side
	case row.State == pool.Claimed && side == pool.Primary:
		return UsePrimary, side
	case row.State == pool.Claimed:
		return UseBackfill, side
	case row.Prevented:
		return UsePrevented, side
	case row.State == pool.Drained:
		return UseDrained, side
	case row.State == pool.Unclaimed:
		return UseFree, side
	}
	return UseOther, side
}
