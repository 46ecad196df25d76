package parquet

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

// valuesOf puts rows into the order of the collector's columns.
func valuesOf(rows []snapshotstest.Row) (all [][]any) {
	for _, r := range rows {
		values := make([]any, len(Schema))
		for i, f := range Schema {
			values[i] = r[f.Name]
		}
		all = append(all, values)
	}
	return all
}

func TestStore(t *testing.T) {
	snapshotstest.TestStore(t, snapshotstest.Store{
		Format: Format,
		Write: func(t testing.TB, path string, rows []snapshotstest.Row) {
			t.Helper()
			require.NoError(t, Replace(path, func(out io.Writer) error {
				return rewrite(t.Context(), out, nil, nil, Schema, valuesOf(rows))
			}))
		},
		Append: func(t testing.TB, path string, rows []snapshotstest.Row) {
			t.Helper()
			require.NoError(t, Append(t.Context(), path, Schema, valuesOf(rows)))
		},
	})
}
