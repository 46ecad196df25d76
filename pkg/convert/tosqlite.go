package convert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// affinities of the columns of a month file, as the collector declares them.
var affinities = map[parquet.Kind]string{
	parquet.Text: "TEXT", parquet.Integer: "BIGINT", parquet.Real: "FLOAT", parquet.Moment: "DATETIME",
}

func (l layout) toSQLite(ctx context.Context, from, to string) (result Result, err error) {
	f, err := parquet.OpenFile(from)
	if err != nil {
		return result, err
	}
	defer f.Close()
	fields, err := f.Fields()
	if err != nil {
		return result, err
	}
	var columns []column
	for _, field := range fields {
		columns = append(columns, column{field, expressionOf(field)})
	}
	if err := l.writeSQLite(ctx, f, columns, to); err != nil {
		return result, err
	}
	db, tx, err := openSource(ctx, to)
	if err != nil {
		return result, err
	}
	defer db.Close()
	defer func() { _ = tx.Rollback() }() // nothing was written
	result.Rows, err = l.compare(ctx, tx, columns, from)
	return result, err
}

// expressionOf reads a column without the driver's interpretation of times.
func expressionOf(f parquet.Field) string {
	if f.Kind == parquet.Moment {
		return "CAST(" + sqlitefile.Quoted(f.Name) + " AS TEXT)"
	}
	return sqlitefile.Quoted(f.Name)
}

func (l layout) writeSQLite(ctx context.Context, f *parquet.File, columns []column, to string) (err error) {
	db, err := sql.Open("sqlite", sqlitefile.URI(to, sqlitefile.Pragma("journal_mode", "OFF"),
		sqlitefile.Pragma("locking_mode", "EXCLUSIVE")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	definitions, names := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		names[i] = sqlitefile.Quoted(c.Name)
		definitions[i] = names[i] + " " + affinities[c.Kind]
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE "+l.table+" ("+strings.Join(definitions, ", ")+")"); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing once it is committed
	insert, err := tx.PrepareContext(ctx, "INSERT INTO "+l.table+" VALUES (?"+strings.Repeat(", ?", len(columns)-1)+")")
	if err != nil {
		return err
	}
	defer insert.Close()
	err = f.EachRow(ctx, 0, fieldsOf(columns), func(row []any) error {
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
