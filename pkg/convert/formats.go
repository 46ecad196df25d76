package convert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// toParquet converts a SQLite file. In the older layout, job_pressure has a row and a timestamp for each job and poll.
func (l layout) toParquet(ctx context.Context, from string, to *os.File, zone *localtime.Zone) (n int, notes []string,
	err error) {
	s, err := l.open(ctx, from)
	if err != nil {
		return 0, nil, err
	}
	defer s.close()
	// Find the columns and the rows.
	table, err := sqlitefile.FindTable(ctx, s.tx, l.table)
	if errors.Is(err, sqlitefile.ErrNoTable) {
		err = fmt.Errorf("it has no table %s", l.table)
	}
	if err != nil {
		return 0, nil, err
	}
	var fields []parquet.Field
	var rows records
	if l.table == queueLayout.table && table.Has("timestamp") && table.Has("GlobalJobId") && !table.Has("first_seen") {
		fields = parquet.QueueSchema
		rows, notes, err = s.stretches(ctx, table, zone)
	} else {
		fields, notes, err = s.fields(ctx, table.Columns)
		rows = s.rows(ctx, fields)
	}
	if err != nil {
		return 0, nil, err
	}
	// Write the rows, then read both files.
	w := parquet.NewWriter(to, fields)
	for values, err := range rows {
		if err == nil {
			err = w.Write(values)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	if err := w.Close(); err != nil {
		return 0, nil, err
	}
	n, err = compare(ctx, rows, fields, to.Name())
	return n, notes, err
}

// fields returns the table's columns in the order of a Parquet month, followed by columns that such a month does not
// have, each with a kind that can represent all of its values.
func (s source) fields(ctx context.Context, names []string) (fields []parquet.Field, notes []string, err error) {
	var known []string // in the file's spelling
	for _, f := range s.schema {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, f.Name) })
		if i >= 0 {
			fields, known = append(fields, f), append(known, names[i])
			names = slices.Delete(names, i, i+1)
		}
	}
	for _, name := range names {
		fields = append(fields, parquet.Field{Name: name, Kind: parquet.Integer})
	}
	for i, name := range slices.Concat(known, names) {
		kind, note, err := s.kindOf(ctx, name, fields[i].Kind)
		if err != nil {
			return nil, nil, err
		}
		if fields[i].Kind = kind; note != "" && i < len(known) {
			notes = append(notes, note)
		}
	}
	return fields, notes, nil
}

// kindOf returns the wanted kind if it fits all values of a column, otherwise the narrowest that does, with a note.
func (s source) kindOf(ctx context.Context, name string, wanted parquet.Kind) (kind parquet.Kind, note string,
	err error) {
	var integers, reals, texts, wholeTexts, blobs int
	q := sqlitefile.Quoted(name)
	err = s.tx.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE typeof("+q+") = 'integer'), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'real'), count(*) FILTER (WHERE typeof("+q+") = 'text'), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'text' AND CAST(CAST("+q+" AS INTEGER) AS TEXT) = "+q+"), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'blob') FROM "+s.table).Scan(&integers, &reals, &texts, &wholeTexts, &blobs)
	switch {
	case err != nil:
		return 0, "", err
	case blobs > 0:
		return 0, "", fmt.Errorf("column %s holds %d binary values, which a month file cannot store", name, blobs)
	case wanted == parquet.Text:
		return parquet.Text, "", nil
	case wanted == parquet.Moment:
		bad, err := s.unreadableMoments(ctx, q)
		if err != nil || bad == 0 {
			return parquet.Moment, "", err
		}
		return parquet.Text, fmt.Sprintf("%s is written as text: it has %d different values that are not "+
			"times", name, bad), nil
	case wanted == parquet.Real && texts == 0:
		return parquet.Real, "", nil
	case wanted == parquet.Integer && reals == 0 && texts == wholeTexts:
		if texts > 0 {
			note = fmt.Sprintf("%s: %d whole numbers stored as text are written as numbers", name, texts)
		}
		return parquet.Integer, note, nil
	case wanted == parquet.Integer && texts == 0:
		return parquet.Real, fmt.Sprintf("%s is written as real numbers: %d values are not whole numbers", name, reals), nil
	}
	return parquet.Text, fmt.Sprintf("%s is written as text: %d values are not numbers", name, texts), nil
}

// unreadableMoments counts the timestamps that a Parquet timestamp cannot represent.
func (s source) unreadableMoments(ctx context.Context, column string) (bad int, err error) {
	for values, err := range s.query(ctx, 1,
		"SELECT DISTINCT CAST("+column+" AS TEXT) FROM "+s.table+" WHERE "+column+" IS NOT NULL") {
		if err != nil {
			return 0, err
		}
		text, _ := values[0].(string)
		if back, err := parquet.ReadMoment(text); err != nil || back != canonical(text) {
			bad++
		}
	}
	return bad, nil
}

// affinities of the columns of a month file, as the collector declares them.
var affinities = map[parquet.Kind]string{
	parquet.Text: "TEXT", parquet.Integer: "BIGINT", parquet.Real: "FLOAT", parquet.Moment: "DATETIME",
}

// toSQLite converts a Parquet file.
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

// writeSQLite writes the rows of a Parquet file into a table of a new file.
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
