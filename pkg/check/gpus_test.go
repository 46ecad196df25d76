package check

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

// What only the site can mend of its machines, GPUs and lists is named, and nothing of a pool without fault.
func TestWhatOnlyTheSiteCanMend(t *testing.T) {
	change := func(rows []snapshotstest.Row, with snapshotstest.Row) (changed []snapshotstest.Row) {
		for _, r := range rows {
			r = maps.Clone(r)
			maps.Copy(r, with)
			changed = append(changed, r)
		}
		return changed
	}
	first := change(every("2025-10-01 00:00:00", 15*time.Minute, 100), snapshotstest.Row{"GPUs_DeviceName": "A100"})
	later := change(every("2025-10-02 01:00:00", 15*time.Minute, 20), snapshotstest.Row{"GPUs_DeviceName": "A100"})
	stores := []string{"gpus", "devices", "machine names", "lists"}
	for name, c := range map[string]struct {
		rows  []snapshotstest.Row
		list  string // masked_hosts.yaml
		store string
		text  string
	}{
		"nothing": {rows: slices.Concat(first, later)},
		"a renamed attribute": {rows: slices.Concat(first, change(later, snapshotstest.Row{"AssignedGPUs": nil})),
			store: "gpus", text: "no row names a GPU in AssignedGPUs since 2025-10-02 00:45 UTC, and the newest snapshot has " +
				"1 row"},
		"GPUs never named": {rows: change(first, snapshotstest.Row{"AssignedGPUs": ""}),
			store: "gpus", text: "no row names a GPU in AssignedGPUs, and the newest snapshot has 1 row"},
		"mixed models": {rows: slices.Concat(first, later, change(later, snapshotstest.Row{"Machine": "m2",
			"GPUs_DeviceName": nil})), store: "devices",
			text: "1 machine without a GPUs_DeviceName: m2. HTCondor has none for a machine with GPUs of several models"},
		"no devices": {rows: change(first, snapshotstest.Row{"GPUs_DeviceName": ""}), store: "devices",
			text: "no GPU has a GPUs_DeviceName"},
		"names that differ in case": {rows: slices.Concat(first, later,
			change(later, snapshotstest.Row{"Machine": "M1"})), store: "machine names",
			text: "M1 and m1 differ only in case, and count as different machines"},
		"a misspelled key": {rows: first, list: "exclude_hosts: {m1: broken}", store: "lists",
			text: "unknown key exclude_hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": c.rows})
			if c.list != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"), []byte(c.list), 0o600))
			}
			found := look(t, open(t, dir, "UTC", now))
			for _, store := range stores {
				if store != c.store {
					require.NotContains(t, found, store)
					continue
				}
				require.Equal(t, Warning, found[store].Severity)
				require.Contains(t, found[store].Text, c.text)
			}
		})
	}
}
