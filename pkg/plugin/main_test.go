package plugin

import (
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger() // the tests' own errors are what matters
	backend.Logger = log.DefaultLogger
	goleak.VerifyTestMain(m)
}
