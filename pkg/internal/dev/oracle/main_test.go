package oracle

import (
	"os"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger() // answers say what went wrong
	backend.Logger = log.DefaultLogger
	golden.FixSeed()
	os.Exit(m.Run())
}
