package jobstest_test

import (
	"testing"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
)

func TestMemory(t *testing.T) {
	jobstest.Run(t, func(_ *testing.T, documents [][]byte) jobs.Source { return jobstest.NewMemory(documents...) })
}
