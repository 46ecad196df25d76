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
	"github.com/chtc/gpureports/pkg/pool"
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

// places in parquet.QueueSchema of what the polls say.
const statePlace, firstPlace, lastPlace = 9, 10, 11

// stretches converts a queue file of the older layout: each run of consecutive polls that saw a job becomes one row of
// parquet.QueueSchema. An outage of more than three intervals of polls ends it, since nothing is known about the time
// between. For example, of a job that was seen at 12:00, 12:30 and 13:30, but not at 13:00, two rows remain: 12:00 to
// 12:30, and 13:30.
func (s source) stretches(ctx context.Context, table *sqlitefile.Table, zone *localtime.Zone) (all records,
	notes []string, err error) {
	p, err := s.readPolls(ctx, zone)
	if err != nil {
		return nil, nil, err
	}
	fields, places := []parquet.Field{{Name: "timestamp"}}, []int{}
	for i, f := range parquet.QueueSchema[:statePlace] {
		if table.Has(f.Name) {
			fields, places = append(fields, f), append(places, i)
		}
	}
	var rows [][]any
	latest := map[string][]any{} // by job
	seen, unnamed := 0, 0
	for values, err := range s.rows(ctx, fields) {
		if err != nil {
			return nil, nil, err
		}
		// Read a row of one job at one poll.
		row := make([]any, len(parquet.QueueSchema))
		for i, place := range places {
			row[place] = values[1+i]
		}
		timestamp, dated := values[0].(string)
		job, _ := row[0].(string)
		if job == "" || !dated {
			unnamed++
			continue
		}
		// Extend the job's stretch if the poll before saw the job, or begin one.
		n, _ := slices.BinarySearch(p.times, p.at[timestamp])
		before, is := latest[job]
		if is && before[lastPlace] == p.times[n] {
			continue // the same row twice
		}
		seen++
		if is && n > 0 && before[lastPlace] == p.times[n-1] && p.times[n]-p.times[n-1] <= p.reach {
			before[lastPlace] = p.times[n]
			continue
		}
		row[statePlace], row[firstPlace], row[lastPlace] = "idle", p.times[n], p.times[n]
		latest[job], rows = row, append(rows, row)
	}
	// Say what the file had.
	notes = append(notes, fmt.Sprintf("it had a row for each job and poll: %d sightings at %d polls, whose times are "+
		"read as those of %s", seen, len(p.times), zone.Calendar()))
	if unnamed > 0 {
		notes = append(notes, fmt.Sprintf("%d rows without GlobalJobId or timestamp are left out", unnamed))
	}
	return func(yield func([]any, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}, notes, nil
}

// polls are the polls of a file of the older layout.
type polls struct {
	times []int64          // Unix seconds, ascending
	at    map[string]int64 // by timestamp
	reach int64            // the longest distance of two polls without an outage between
}

// readPolls reads the times of the polls, as timestamps of snapshots are read.
func (s source) readPolls(ctx context.Context, zone *localtime.Zone) (p polls, err error) {
	resolver := zone.NewResolver()
	p.at = map[string]int64{}
	for values, err := range s.query(ctx, 1, "SELECT CAST(timestamp AS TEXT) FROM job_pressure "+
		"WHERE timestamp IS NOT NULL GROUP BY timestamp ORDER BY min(rowid)") {
		if err != nil {
			return p, err
		}
		text, _ := values[0].(string)
		read, err := resolver.Read([]byte(text))
		if err != nil {
			return p, err
		}
		p.at[text] = read.Time / pool.Second
		p.times = append(p.times, p.at[text])
	}
	slices.Sort(p.times)
	p.times = slices.Compact(p.times)
	distances := make([]int64, max(len(p.times)-1, 0))
	for i := range distances {
		distances[i] = p.times[i+1] - p.times[i]
	}
	slices.Sort(distances)
	if len(distances) > 0 {
		p.reach = 3 * distances[len(distances)/2]
	}
	return p, nil
}
