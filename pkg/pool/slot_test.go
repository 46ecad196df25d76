package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlotNames(t *testing.T) {
	for name, want := range map[string]Side{
		"slot1@m": Primary, "slot1_3@backfill-1.example.org": Primary, "": Primary, "@backfill": Primary,
		"backfill2@m": Backfill, "BackFill2_1@m": Backfill, "my_backfill": Backfill,
	} {
		require.Equal(t, want, SideOf(name), name)
	}
	for name, want := range map[string]bool{
		"data1@m": true, "data1_1@m": true, "data12_34": true, "data1": true,
		"data@m": false, "data1_@m": false, "Data1@m": false, "slot1@data1": false, "data1x@m": false, "xdata1@m": false,
	} {
		require.Equal(t, want, IsDataSlot(name), name)
	}
}
