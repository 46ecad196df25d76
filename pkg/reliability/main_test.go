package reliability

import (
	"flag"
	"os"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
)

var long = flag.Bool("long", false, "run the long version, which takes about half an hour")

func TestMain(m *testing.M) {
	flag.Parse()
	log.DefaultLogger = log.NewNullLogger() // answers are what matters
	backend.Logger = log.DefaultLogger
	os.Exit(m.Run())
}
