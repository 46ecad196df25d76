// The plugin's backend, as Grafana starts it.
package main

import (
	"os"
	"runtime/debug"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/datasource"

	"github.com/chtc/gpureports/pkg/plugin"
)

// gcPercent is lower than Go's default: the cached segments and runs of a month would otherwise take twice their size.
const gcPercent = 40

func main() {
	debug.SetGCPercent(gcPercent)
	if err := datasource.Manage(plugin.ID, plugin.New, datasource.ManageOpts{}); err != nil {
		backend.Logger.Error(err.Error())
		os.Exit(1)
	}
}
