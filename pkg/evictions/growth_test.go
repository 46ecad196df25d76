package evictions_test

import (
	"testing"

	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

// Runs that are reused when snapshots and ads come, or change, equal those of a newly opened source.
func TestAnswersWhileAPoolGrows(t *testing.T) {
	runstest.AnswersWhileGrowing(t, `{"queryType": "evictions", "groupBy": ["machine"]}`,
		`{"queryType": "evictions", "view": "events", "limit": 50000}`, `{"queryType": "evictions", "view": "timeseries"}`,
		`{"queryType": "evictions", "view": "survival"}`)
}
