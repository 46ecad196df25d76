// The plugin's backend, as Grafana starts it.
package main

import (
	"os"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/datasource"

	"github.com/chtc/gpureports/pkg/plugin"
)

func main() {
	options := datasource.ManageOpts{QueryConversionHandler: backend.ConvertQueryFunc(plugin.ConvertQueries)}
	if err := datasource.Manage(plugin.ID, plugin.New, options); err != nil {
		backend.Logger.Error(err.Error())
		os.Exit(1)
	}
}
