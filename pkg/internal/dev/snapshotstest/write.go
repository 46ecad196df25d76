// Package snapshotstest makes month files for tests. Its own tests hold all stores of month files to one suite.
package snapshotstest

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver
)

// Row is a row of gpu_state by column; missing columns are NULL.
type Row map[string]any

// Schema is the table of newer files, as the collector declares it.
var Schema = []string{"Name TEXT", "AssignedGPUs TEXT", "AvailableGPUs TEXT", "State TEXT", "GPUs_DeviceName TEXT",
	"GPUs_GlobalMemoryMb BIGINT", "PrioritizedProjects TEXT", "GPUsAverageUsage FLOAT", "Machine TEXT",
	"PreventJobsReason TEXT", "RemoteOwner TEXT", "GlobalJobId TEXT", "timestamp DATETIME", "Disk INTEGER",
	"Cpus INTEGER", "Memory INTEGER", "SlotType TEXT", "SlotBrokenReason TEXT", "BackfillSlot INTEGER"}

// Open opens a month file for writing and makes its table when there is none. pragmas come before the table.
func Open(t testing.TB, dir, name string, schema []string, pragmas ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, name))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	for _, p := range pragmas {
		_, err = db.Exec("PRAGMA " + p)
		require.NoError(t, err)
	}
	_, err = db.Exec("CREATE TABLE IF NOT EXISTS gpu_state(" + strings.Join(schema, ", ") + ")")
	require.NoError(t, err)
	return db
}

// Append writes rows in one transaction, in their order.
func Append(t testing.TB, db *sql.DB, schema []string, rows ...Row) {
	t.Helper()
	tx, err := db.Begin()
	require.NoError(t, err)
	statement, err := tx.Prepare("INSERT INTO gpu_state VALUES (?" + strings.Repeat(",?", len(schema)-1) + ")")
	require.NoError(t, err)
	for _, row := range rows {
		values := make([]any, len(schema))
		for i, column := range schema {
			name, _, _ := strings.Cut(column, " ")
			values[i] = row[strings.Trim(name, `"`)]
		}
		_, err = statement.Exec(values...)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
}

// Write makes month files of rows, by file name.
func Write(t testing.TB, dir string, files map[string][]Row) {
	t.Helper()
	for name, rows := range files {
		db := Open(t, dir, name, Schema)
		Append(t, db, Schema, rows...)
		require.NoError(t, db.Close())
	}
}
