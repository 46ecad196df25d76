package query

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// The front end's tests read the same cases (src/query/migration.test.ts).
func TestMigrate(t *testing.T) {
	text, err := os.ReadFile("../../testdata/migrations/cases.json")
	require.NoError(t, err)
	var file struct {
		Migrations []Migration
		Cases      []struct {
			Name            string
			Query, Migrated json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Cases)
	defer func(own []Migration) { Migrations = own }(Migrations)
	Migrations = file.Migrations
	for _, c := range file.Cases {
		got, err := Migrate(c.Query)
		require.NoError(t, err, c.Name)
		require.JSONEq(t, string(c.Migrated), string(got), c.Name)
	}
}

func TestMigrationsLeadToTheVersion(t *testing.T) {
	require.Len(t, Migrations, Version-1)
}

func TestMigrateRefuses(t *testing.T) {
	for _, raw := range []string{`7`, `[]`, `{"version": "1"}`, `{`} {
		_, err := Migrate([]byte(raw))
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err), raw)
	}
}
