package evictions_test

import (
	"testing"

	"github.com/chtc/gpureports/pkg/runs/runstest"
)

// What is taken over when snapshots and ads come, or change, is what a source gives that is asked for the first time.
func TestAnswersWhileAPoolGrows(t *testing.T) {
	runstest.AnswersWhileGrowing(t, `{"queryType": "evictions", "groupBy": ["machine"]}`,
		`{"queryType": "evictions", "view": "events", "limit": 50000}`, `{"queryType": "evictions", "view": "timeseries"}`,
		`{"queryType": "evictions", "view": "survival"}`)
}
