package evictions_test

import (
	"testing"

	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

func open(t testing.TB, dir string, zone any) runstest.Source {
	t.Helper()
	return runstest.Open(t, dir, zone)
}
