package main

import (
	"context"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/plugin"
)

// asking says who asks the data source. Whoever can read the settings and the files sees names.
type asking struct {
	Pseudonyms bool `help:"Name users and jobs as viewers see them, where the setting userNames is pseudonyms."`
}

// asked is a data source with someone who asks it.
type asked struct {
	*plugin.Datasource
	user *backend.User
}

// QueryData answers queries.
func (a asked) QueryData(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	by := *req
	by.PluginContext.User = a.user
	return a.Datasource.QueryData(ctx, &by)
}

// open opens the data source.
func (a asking) open(settings backend.DataSourceInstanceSettings, c *console) (asked, error) {
	source := asked{plugin.Open(settings, func() time.Time { return c.now }), &backend.User{Role: "Admin"}}
	if !a.Pseudonyms {
		return source, nil
	}
	parsed, err := plugin.ParseSettings(settings.JSONData)
	if err == nil && !parsed.Pseudonymous() {
		err = usage("--pseudonyms: the setting userNames is %s: write pseudonyms, and pseudonymSecret into secureJsonData",
			parsed.UserNames)
	}
	source.user = nil
	return source, err
}
