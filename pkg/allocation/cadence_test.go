package allocation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// A cadence that is short for the slices makes averages too high: the answer says so, and with what remedy.
func TestCadenceNotice(t *testing.T) {
	window := golden.Window(t, "2025-09-28T00:00:00Z", "2025-09-29T00:00:00Z")
	for minutes, told := range map[int]bool{0: false, 5: false, 10: true, 15: true, 60: true} {
		s := open(t, golden.Pool(t, "pool-c"), "America/Chicago", minutes) // a snapshot every 5 min
		for _, q := range []string{`{"queryType": "allocation", "view": "summary"}`, `{"queryType": "userHours"}`} {
			var texts []string
			for _, n := range s.Ask(t, nil, window, q)[0].Meta.Notices {
				texts = append(texts, n.Text)
			}
			all := strings.Join(texts, "\n")
			require.Equal(t, told, strings.Contains(all, "Set sliceMinutes to 0"), "%d min: %s", minutes, all)
			require.Equal(t, told, strings.Contains(all, "the collector runs every 5 min"), "%d min: %s", minutes, all)
		}
	}
	pool := open(t, golden.Pool(t, "pool-a"), "UTC", 15) // every 15 min
	window = golden.Window(t, "2025-09-30T00:00:00Z", "2025-10-01T00:00:00Z")
	for _, n := range pool.Ask(t, nil, window, `{"queryType": "allocation", "view": "summary"}`)[0].Meta.Notices {
		require.NotContains(t, n.Text, "sliceMinutes")
	}
}
