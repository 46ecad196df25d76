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

func (l layout) toParquet(ctx context.Context, from, to string, zone *localtime.Zone) (result Result, err error) {
	db, tx, err := openSource(ctx, from)
	if err != nil {
		return result, err
	}
	defer db.Close()
	defer func() { _ = tx.Rollback() }() // nothing was written
	names, err := l.columnNames(ctx, tx)
	if err != nil {
		return result, err
	}
	if l.table == queueLayout.table && older(names) {
		return stretches(ctx, tx, names, zone, to)
	}
	columns, notes, err := l.columnsOf(ctx, tx, names)
	if err != nil {
		return result, err
	}
	result.Notes = notes
	if err := l.writeParquet(ctx, tx, columns, to); err != nil {
		return result, err
	}
	result.Rows, err = l.compare(ctx, tx, columns, to)
	return result, err
}

func (l layout) writeParquet(ctx context.Context, tx *sql.Tx, columns []column, to string) error {
	c, err := l.newCursor(ctx, tx, columns)
	if err != nil {
		return err
	}
	defer c.rows.Close()
	return writeFile(to, fieldsOf(columns), func(w *parquet.Writer) error {
		for {
			there, err := c.next()
			if err != nil || !there {
				return err
			}
			if err := w.Write(c.values); err != nil {
				return err
			}
		}
	})
}

// writeFile writes a Parquet file.
func writeFile(to string, fields []parquet.Field, rows func(*parquet.Writer) error) (err error) {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // #nosec G302 -- Grafana's user reads it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := parquet.NewWriter(out, fields)
	if err := rows(w); err != nil {
		return err
	}
	return errors.Join(w.Close(), out.Sync())
}

// columnsOf returns the table's columns in the order of a Parquet month, followed by columns that such a month does not
// have, each with a kind that can represent all of its values.
func (l layout) columnsOf(ctx context.Context, tx *sql.Tx, names []string) (columns []column, notes []string,
	err error) {
	for _, f := range l.schema {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, f.Name) })
		if i < 0 {
			continue
		}
		c := column{Field: f}
		var note string
		if c.Kind, note, err = l.kindOf(ctx, tx, names[i], f.Kind); err != nil {
			return nil, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		c.expression = expression(names[i], c.Kind)
		columns = append(columns, c)
		names = slices.Delete(names, i, i+1)
	}
	for _, name := range names {
		kind, _, err := l.kindOf(ctx, tx, name, parquet.Integer)
		if err != nil {
			return nil, nil, err
		}
		columns = append(columns, column{parquet.Field{Name: name, Kind: kind}, expression(name, kind)})
	}
	return columns, notes, nil
}

func (l layout) columnNames(ctx context.Context, tx *sql.Tx) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM pragma_table_info(?) ORDER BY cid", l.table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if len(names) == 0 && rows.Err() == nil {
		return nil, fmt.Errorf("it has no table %s", l.table)
	}
	return names, rows.Err()
}

// expression reads a column in the form in which its kind is written. Otherwise the driver would parse a timestamp.
func expression(name string, kind parquet.Kind) string {
	switch kind {
	case parquet.Integer:
		return "CAST(" + sqlitefile.Quoted(name) + " AS INTEGER)"
	case parquet.Real:
		return "CAST(" + sqlitefile.Quoted(name) + " AS REAL)"
	}
	return "CAST(" + sqlitefile.Quoted(name) + " AS TEXT)"
}

// kindOf returns the wanted kind if it can represent all values of a column, otherwise the narrowest kind that can,
// with a note.
func (l layout) kindOf(ctx context.Context, tx *sql.Tx, name string, wanted parquet.Kind) (
	kind parquet.Kind, note string,
	err error) {
	var integers, reals, texts, wholeTexts, blobs int
	q := sqlitefile.Quoted(name)
	err = tx.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE typeof("+q+") = 'integer'), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'real'), count(*) FILTER (WHERE typeof("+q+") = 'text'), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'text' AND CAST(CAST("+q+" AS INTEGER) AS TEXT) = "+q+"), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'blob') FROM "+l.table).Scan(&integers, &reals, &texts, &wholeTexts, &blobs)
	switch {
	case err != nil:
		return 0, "", err
	case blobs > 0:
		return 0, "", fmt.Errorf("column %s holds %d binary values, which a month file cannot store", name, blobs)
	case wanted == parquet.Text:
		return parquet.Text, "", nil
	case wanted == parquet.Moment:
		bad, err := l.unreadableMoments(ctx, tx, q)
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
func (l layout) unreadableMoments(ctx context.Context, tx *sql.Tx, column string) (bad int, err error) {
	rows, err := tx.QueryContext(ctx,
		"SELECT DISTINCT CAST("+column+" AS TEXT) FROM "+l.table+" WHERE "+column+" IS NOT NULL")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return 0, err
		}
		if back, err := parquet.ReadMoment(text); err != nil || back != canonical(text) {
			bad++
		}
	}
	return bad, rows.Err()
}
