// The plugin's backend, as Grafana starts it.
package main

import (
	"os"
	"runtime/debug"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/datasource"

	"github.com/chtc/gpureports/pkg/plugin"
)

func main() {
	// Most of what lives is segments without pointers, which cost the collector nothing: it can go round more often than
	// it would, and the process needs a quarter less (docs/performance.md, "Many viewers").
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
	}
	options := datasource.ManageOpts{QueryConversionHandler: backend.ConvertQueryFunc(plugin.ConvertQueries)}
	if err := datasource.Manage(plugin.ID, plugin.New, options); err != nil {
		backend.Logger.Error(err.Error())
		os.Exit(1)
	}
}
