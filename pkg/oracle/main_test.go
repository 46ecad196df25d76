package oracle

import (
	"os"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger() // answers say what went wrong
	backend.Logger = log.DefaultLogger
	os.Exit(m.Run())
}
