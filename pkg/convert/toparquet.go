package convert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

func toParquet(ctx context.Context, from, to string) (result Result, err error) {
	db, tx, err := openSource(ctx, from)
	if err != nil {
		return result, err
	}
	defer db.Close()
	defer func() { _ = tx.Rollback() }() // nothing was written
	columns, notes, err := columnsOf(ctx, tx)
	if err != nil {
		return result, err
	}
	result.Notes = notes
	if err := writeParquet(ctx, tx, columns, to); err != nil {
		return result, err
	}
	result.Rows, err = compare(ctx, tx, columns, to)
	return result, err
}

func writeParquet(ctx context.Context, tx *sql.Tx, columns []column, to string) (err error) {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // #nosec G302 -- Grafana's user reads it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	c, err := newCursor(ctx, tx, columns)
	if err != nil {
		return err
	}
	defer c.rows.Close()
	w := parquet.NewWriter(out, fieldsOf(columns))
	for {
		there, err := c.next()
		if err != nil {
			return err
		}
		if !there {
			return errors.Join(w.Close(), out.Sync())
		}
		if err := w.Write(c.values); err != nil {
			return err
		}
	}
}

// columnsOf returns the columns of gpu_state in the order of a Parquet month, then those that it does not have, each in
// a kind that holds all of its values.
func columnsOf(ctx context.Context, tx *sql.Tx) (columns []column, notes []string, err error) {
	names, err := columnNames(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range parquet.Schema {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, f.Name) })
		if i < 0 {
			continue
		}
		c := column{Field: f}
		var note string
		if c.Kind, note, err = kindOf(ctx, tx, names[i], f.Kind); err != nil {
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
		kind, _, err := kindOf(ctx, tx, name, parquet.Integer)
		if err != nil {
			return nil, nil, err
		}
		columns = append(columns, column{parquet.Field{Name: name, Kind: kind}, expression(name, kind)})
	}
	return columns, notes, nil
}

func columnNames(ctx context.Context, tx *sql.Tx) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM pragma_table_info('gpu_state') ORDER BY cid")
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
		return nil, errors.New("it has no table gpu_state")
	}
	return names, rows.Err()
}

// expression reads a column in the form that its kind is written in. The driver would parse a timestamp otherwise.
func expression(name string, kind parquet.Kind) string {
	switch kind {
	case parquet.Integer:
		return "CAST(" + quoted(name) + " AS INTEGER)"
	case parquet.Real:
		return "CAST(" + quoted(name) + " AS REAL)"
	}
	return "CAST(" + quoted(name) + " AS TEXT)"
}

// kindOf returns the kind wanted if it holds all values of a column, else the narrowest that does, with a note.
func kindOf(ctx context.Context, tx *sql.Tx, name string, wanted parquet.Kind) (kind parquet.Kind, note string,
	err error) {
	var integers, reals, texts, wholeTexts, blobs int
	q := quoted(name)
	err = tx.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE typeof("+q+") = 'integer'), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'real'), count(*) FILTER (WHERE typeof("+q+") = 'text'), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'text' AND CAST(CAST("+q+" AS INTEGER) AS TEXT) = "+q+"), "+
		"count(*) FILTER (WHERE typeof("+q+") = 'blob') FROM gpu_state").Scan(&integers, &reals, &texts, &wholeTexts, &blobs)
	switch {
	case err != nil:
		return 0, "", err
	case blobs > 0:
		return 0, "", fmt.Errorf("column %s holds %d binary values, for which a month file has no form", name, blobs)
	case wanted == parquet.Text:
		return parquet.Text, "", nil
	case wanted == parquet.Moment:
		bad, err := unreadableMoments(ctx, tx, q)
		if err != nil || bad == 0 {
			return parquet.Moment, "", err
		}
		return parquet.Text, fmt.Sprintf("%s is written as text: it has %d different values that are no time", name, bad), nil
	case wanted == parquet.Real && texts == 0:
		return parquet.Real, "", nil
	case wanted == parquet.Integer && reals == 0 && texts == wholeTexts:
		if texts > 0 {
			note = fmt.Sprintf("%s: %d whole numbers stored as text are written as numbers", name, texts)
		}
		return parquet.Integer, note, nil
	case wanted == parquet.Integer && texts == 0:
		return parquet.Real, fmt.Sprintf("%s is written as real numbers: %d values are no whole numbers", name, reals), nil
	}
	return parquet.Text, fmt.Sprintf("%s is written as text: %d values are no numbers", name, texts), nil
}

// unreadableMoments counts the timestamps that a Parquet timestamp cannot stand for.
func unreadableMoments(ctx context.Context, tx *sql.Tx, column string) (bad int, err error) {
	rows, err := tx.QueryContext(ctx,
		"SELECT DISTINCT CAST("+column+" AS TEXT) FROM gpu_state WHERE "+column+" IS NOT NULL")
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
