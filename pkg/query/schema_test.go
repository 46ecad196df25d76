package query

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// The front end reads src/query/schema.json; it must say what this package knows.
func TestSchemaIsTheFrontEnds(t *testing.T) {
	stored, err := os.ReadFile("../../src/query/schema.json")
	require.NoError(t, err)
	generated, err := json.Marshal(Schema())
	require.NoError(t, err)
	var want, got any
	require.NoError(t, json.Unmarshal(generated, &want))
	require.NoError(t, json.Unmarshal(stored, &got))
	require.Empty(t, cmp.Diff(want, got), "src/query/schema.json differs from the kinds of pkg/query (-generated +stored)")
}
