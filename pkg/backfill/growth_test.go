package backfill_test

import (
	"testing"

	"github.com/chtc/gpureports/pkg/runs/runstest"
)

// What is taken over when snapshots and ads come, or change, is what a source gives that is asked for the first time.
func TestAnswersWhileAPoolGrows(t *testing.T) {
	runstest.AnswersWhileGrowing(t, summary, `{"queryType": "backfillAvailability", "groupBy": ["machine"]}`,
		`{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`,
		`{"queryType": "backfillAvailability", "view": "periods", "duration": "tenure", "limit": 50000}`,
		`{"queryType": "backfillAvailability", "view": "timeseries"}`,
		`{"queryType": "backfillAvailability", "view": "transitions", "groupBy": ["machine"]}`,
		`{"queryType": "backfillAvailability", "view": "survival"}`,
		`{"queryType": "backfillAvailability", "view": "jobLength"}`)
}
