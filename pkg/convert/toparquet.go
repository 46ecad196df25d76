package convert

import (
	"context"
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
	s, err := l.open(ctx, from)
	if err != nil {
		return result, err
	}
	defer s.close()
	table, err := sqlitefile.FindTable(ctx, s.tx, l.table)
	if errors.Is(err, sqlitefile.ErrNoTable) {
		err = fmt.Errorf("it has no table %s", l.table)
	}
	if err != nil {
		return result, err
	}
	if l.table == queueLayout.table && older(table) {
		return s.stretches(ctx, table, zone, to)
	}
	var fields []parquet.Field
	if fields, result.Notes, err = s.fields(ctx, table.Columns); err != nil {
		return result, err
	}
	if err := writeParquet(s.rows(ctx, fields), fields, to); err != nil {
		return result, err
	}
	result.Rows, err = compare(ctx, s.rows(ctx, fields), fields, to)
	return result, err
}

// writeParquet writes rows to a Parquet file.
func writeParquet(rows records, fields []parquet.Field, to string) (err error) {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // #nosec G302 -- Grafana's user reads it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := parquet.NewWriter(out, fields)
	for values, err := range rows {
		if err != nil {
			return err
		}
		if err := w.Write(values); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), out.Sync())
}

// fields returns the table's columns in the order of a Parquet month, followed by columns that such a month does not
// have, each with a kind that can represent all of its values.
func (s source) fields(ctx context.Context, names []string) (fields []parquet.Field, notes []string, err error) {
	add := func(name string, f parquet.Field) (note string, err error) {
		f.Kind, note, err = s.kindOf(ctx, name, f.Kind)
		fields = append(fields, f)
		return note, err
	}
	for _, f := range s.schema {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, f.Name) })
		if i < 0 {
			continue
		}
		note, err := add(names[i], f)
		if err != nil {
			return nil, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		names = slices.Delete(names, i, i+1)
	}
	for _, name := range names {
		if _, err := add(name, parquet.Field{Name: name, Kind: parquet.Integer}); err != nil {
			return nil, nil, err
		}
	}
	return fields, notes, nil
}

// kindOf returns the wanted kind if it can represent all values of a column, otherwise the narrowest kind that can,
// with a note.
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
	rows, err := s.tx.QueryContext(ctx,
		"SELECT DISTINCT CAST("+column+" AS TEXT) FROM "+s.table+" WHERE "+column+" IS NOT NULL")
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
