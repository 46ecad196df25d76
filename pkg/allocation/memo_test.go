package allocation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

// A repeated question, after others and over another window, has the same answer as one on an empty cache.
func TestRememberedCounts(t *testing.T) {
	dir := golden.Pool(t, "pool-b")
	whole := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, zone := range []string{"America/Chicago", "Asia/Kolkata"} {
		old := open(t, dir, zone, 60)
		for i := range 16 {
			w := pool.Window{From: whole.From + []int64{0, 6, 30}[rnd.IntN(3)]*pool.Hour,
				To: whole.To - rnd.Int64N(3)*11*pool.Hour}
			text := []string{
				`{"queryType": "allocation", "bucket": "3h", "metrics": ["allocatedPercent", "free", "prevented"], "limit": 1000%s}`,
				`{"queryType": "allocation", "view": "summary"%s}`,
				`{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"], "bucket": "1d"%s}`,
				`{"queryType": "userHours", "groupBy": ["device"]%s}`,
			}[i%4]
			filter := []string{"", `, "filter": {"machines": ["/gpu/"]}`, `, "filter": {"slots": ["Real"]}`}[rnd.IntN(3)]
			fresh := open(t, dir, zone, 60)
			require.Equal(t, plain(t, fresh, w, fmt.Sprintf(text, filter)), plain(t, old, w, fmt.Sprintf(text, filter)), text)
		}
	}
}

// plain is an answer without its statistics.
func plain(t testing.TB, s runstest.Source, w pool.Window, text string) string {
	t.Helper()
	var all []string
	for _, f := range s.Ask(t, nil, w, text) {
		f.Meta.Stats = nil
		document, err := json.Marshal(f)
		require.NoError(t, err)
		all = append(all, string(document))
	}
	return strings.Join(all, "\n")
}
