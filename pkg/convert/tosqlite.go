package convert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// affinities of the columns of a month file, as the collector declares them.
var affinities = map[parquet.Kind]string{
	parquet.Text: "TEXT", parquet.Integer: "BIGINT", parquet.Real: "FLOAT", parquet.Moment: "DATETIME",
}

func (l layout) toSQLite(ctx context.Context, from string, to *os.File, _ *localtime.Zone) (n int, notes []string,
	err error) {
	f, err := parquet.OpenFile(from)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	fields, err := f.Fields()
	if err != nil {
		return 0, nil, err
	}
	if err := l.writeSQLite(ctx, f, fields, to.Name()); err != nil {
		return 0, nil, err
	}
	s, err := l.open(ctx, to.Name())
	if err != nil {
		return 0, nil, err
	}
	defer s.close()
	n, err = compare(ctx, s.rows(ctx, fields), fields, from)
	return n, nil, err
}

func (l layout) writeSQLite(ctx context.Context, f *parquet.File, fields []parquet.Field, to string) (err error) {
	db, err := sql.Open("sqlite", sqlitefile.URI(to, sqlitefile.Pragma("journal_mode", "OFF"),
		sqlitefile.Pragma("locking_mode", "EXCLUSIVE")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	// Create the table.
	definitions, names := make([]string, len(fields)), make([]string, len(fields))
	for i, c := range fields {
		names[i] = sqlitefile.Quoted(c.Name)
		definitions[i] = names[i] + " " + affinities[c.Kind]
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE "+l.table+" ("+strings.Join(definitions, ", ")+")"); err != nil {
		return err
	}
	// Insert the rows, then make the indexes, which is faster than the other way round.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing once it is committed
	insert, err := tx.PrepareContext(ctx, "INSERT INTO "+l.table+" VALUES (?"+strings.Repeat(", ?", len(fields)-1)+")")
	if err != nil {
		return err
	}
	defer insert.Close()
	err = f.EachRow(ctx, 0, fields, func(row []any) error {
		_, err := insert.ExecContext(ctx, row...)
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range l.indexes {
		if f.Column(name) == nil {
			continue
		}
		statement := fmt.Sprintf("CREATE INDEX %s_%s ON %[1]s (%[2]s)", l.table, name)
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}
