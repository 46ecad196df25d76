package host

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"
)

// Grafana can have stored queries migrated by the server: each comes back whole, in its place.
func TestConvertQueries(t *testing.T) {
	stored := []string{
		`{"refId": "A", "hide": true, "datasource": {"uid": "x"}, "queryType": "allocation", "version": 1}`,
		`{"refId": "B", "queryType": "userHours"}`,
	}
	req := &backend.QueryDataRequest{}
	for _, text := range stored {
		req.Queries = append(req.Queries, backend.DataQuery{JSON: json.RawMessage(text)})
	}
	converted, err := process(t).ConvertQueries(context.Background(), req)
	require.NoError(t, err)
	require.Len(t, converted, len(stored))
	for i, text := range stored {
		require.JSONEq(t, text, string(converted[i]))
	}

	req.Queries = []backend.DataQuery{{JSON: json.RawMessage(`{"version": "old"}`)}}
	_, err = process(t).ConvertQueries(context.Background(), req)
	require.ErrorContains(t, err, "the query cannot be read")
}
