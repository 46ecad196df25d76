package jobstest_test

import (
	"testing"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/jobstest"
)

func TestMemory(t *testing.T) {
	jobstest.Run(t, func(_ *testing.T, documents [][]byte) jobs.Source { return jobstest.NewMemory(documents...) })
}
