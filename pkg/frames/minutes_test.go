package frames_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	. "github.com/chtc/gpureports/pkg/frames"
)

// Hours below one read as minutes and those above 48 as days, by the text that JavaScript makes of the number; others
// as they are.
func TestMinutes(t *testing.T) {
	p := planOf(t, `{"queryType": "backfillAvailability", "view": "summary", "groupBy": [], "metrics": ["hours90", "hours50", "used"], "totals": false}`)
	f := Table(p, aboutOf(p), []Row{{Values: []float64{23.0 / 60, 1, 0.5}}})[0]
	text, err := json.Marshal(f.Fields[0].Config.Mappings)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type": "value", "options": {"0.38333333333333336": {"text": "23 min"}}}]`, string(text))
	require.Empty(t, f.Fields[1].Config.Mappings)
	require.Empty(t, f.Fields[2].Config.Mappings, "no hours")
	f = Table(p, aboutOf(p), []Row{{Values: []float64{48, 76.8, 76.8}}})[0]
	require.Empty(t, f.Fields[0].Config.Mappings)
	text, err = json.Marshal(f.Fields[1].Config.Mappings)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type": "value", "options": {"76.8": {"text": "3.2 d"}}}]`, string(text))
	for hours, want := range map[float64]string{0.001: "< 1 min", 0.999: "1 h", 0.99: "59 min", 1.25: "1.3 h",
		30: "30 h"} {
		require.Equal(t, want, Duration(hours))
	}
}
