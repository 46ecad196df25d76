package backfill_test

import (
	"testing"

	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

// Periods that are reused when snapshots and ads come, or change, equal those of a newly opened source.
func TestAnswersWhileAPoolGrows(t *testing.T) {
	runstest.AnswersWhileGrowing(t, summary, `{"queryType": "backfillAvailability", "groupBy": ["machine"]}`,
		`{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`,
		`{"queryType": "backfillAvailability", "view": "periods", "duration": "tenure", "limit": 50000}`,
		`{"queryType": "backfillAvailability", "view": "timeseries"}`,
		`{"queryType": "backfillAvailability", "view": "transitions", "groupBy": ["machine"]}`,
		`{"queryType": "backfillAvailability", "view": "survival"}`,
		`{"queryType": "backfillAvailability", "view": "jobLength"}`)
}
