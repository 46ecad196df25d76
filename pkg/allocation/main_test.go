package allocation_test

import (
	"os"
	"testing"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

func TestMain(m *testing.M) {
	golden.FixSeed()
	os.Exit(m.Run())
}
