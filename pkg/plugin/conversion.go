package plugin

import (
	"context"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/query"
)

// ConvertQueries brings the stored queries of a request to the current version, as the editor does in the front end.
// Errors are pool.BadQuery.
func ConvertQueries(_ context.Context, req *backend.QueryDataRequest) (*backend.QueryConversionResponse, error) {
	response := &backend.QueryConversionResponse{Queries: []any{}}
	for _, q := range req.Queries {
		migrated, err := query.Migrate(q.JSON)
		if err != nil {
			return nil, err
		}
		response.Queries = append(response.Queries, migrated)
	}
	return response, nil
}
