package convert

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// older reports whether a table of job_pressure has the older layout: a row for each job and poll, with a timestamp.
func older(names []string) bool {
	return has(names, "timestamp") && has(names, "GlobalJobId") && !has(names, "first_seen")
}

func has(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// stretches converts a queue file of the older layout: each run of consecutive polls that saw a job becomes one row. An
// outage of more than three intervals of polls ends it, since nothing is known about the time between. For example, of
// a job that was seen at 12:00, 12:30 and 13:30, but not at 13:00, two rows remain: 12:00 to 12:30, and 13:30.
func stretches(ctx context.Context, tx *sql.Tx, names []string, zone *localtime.Zone, to string) (result Result,
	err error) {
	polls, err := readPolls(ctx, tx, zone)
	if err != nil {
		return result, err
	}
	rows, seen, unnamed, err := polls.join(ctx, tx, names)
	if err != nil {
		return result, err
	}
	err = writeFile(to, parquet.QueueSchema, func(w *parquet.Writer) error {
		for _, row := range rows {
			if err := w.Write(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return result, err
	}
	again, err := polls.count(ctx, to)
	if err == nil && again != seen {
		err = fmt.Errorf("comparing: %d sightings of jobs became %d", seen, again)
	}
	result.Rows = len(rows)
	result.Notes = []string{fmt.Sprintf("it had a row for each job and poll: %d sightings at %d polls, whose times are "+
		"read as those of %s", seen, len(polls.times), zone.Calendar())}
	if unnamed > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("%d rows without GlobalJobId or timestamp are left out", unnamed))
	}
	return result, err
}

// polls are the polls of a file of the older layout.
type polls struct {
	times []int64        // Unix seconds, ascending
	index map[string]int // in times, by timestamp
	reach int64          // the longest distance of two polls without an outage between
}

// readPolls reads the times of the polls, as timestamps of snapshots are read.
func readPolls(ctx context.Context, tx *sql.Tx, zone *localtime.Zone) (p polls, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT CAST(timestamp AS TEXT) FROM job_pressure WHERE timestamp IS NOT NULL "+
		"GROUP BY timestamp ORDER BY min(rowid)")
	if err != nil {
		return p, err
	}
	defer rows.Close()
	resolver, at := zone.NewResolver(), map[string]int64{}
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return p, err
		}
		read, err := resolver.Read([]byte(text))
		if err != nil {
			return p, err
		}
		at[text] = read.Time / pool.Second
		p.times = append(p.times, at[text])
	}
	if err := rows.Err(); err != nil {
		return p, err
	}
	slices.Sort(p.times)
	p.times = slices.Compact(p.times)
	p.index = make(map[string]int, len(at))
	for text, t := range at {
		p.index[text], _ = slices.BinarySearch(p.times, t)
	}
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

// join returns the stretches, each as a row of parquet.QueueSchema, in the order in which they begin; how often a job
// was seen at a poll, and the number of rows that name no job or poll.
func (p polls) join(ctx context.Context, tx *sql.Tx, names []string) (stretches [][]any, seen, unnamed int, err error) {
	const firstColumn, lastColumn = 10, 11
	expressions := []string{"CAST(timestamp AS TEXT)"}
	for i, f := range parquet.QueueSchema {
		switch {
		case i >= firstColumn || !has(names, f.Name):
			expressions = append(expressions, "NULL")
		default:
			expressions = append(expressions, expression(f.Name, f.Kind))
		}
	}
	order := "SELECT " + strings.Join(expressions, ", ") + " FROM job_pressure ORDER BY rowid"
	rows, err := tx.QueryContext(ctx, order)
	if err != nil {
		return nil, 0, 0, err
	}
	defer rows.Close()
	var timestamp sql.NullString
	values, into := make([]any, len(parquet.QueueSchema)), []any{&timestamp}
	for i := range values {
		into = append(into, &values[i])
	}
	type open struct {
		row  []any
		poll int // that saw the job last
	}
	latest := map[string]*open{}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, 0, 0, err
		}
		job, _ := values[0].(string)
		if job == "" || !timestamp.Valid {
			unnamed++
			continue
		}
		n := p.index[timestamp.String]
		known := latest[job]
		if known != nil && known.poll == n {
			continue // the same row twice
		}
		seen++
		if known != nil && n == known.poll+1 && p.times[n]-p.times[n-1] <= p.reach {
			known.row[lastColumn], known.poll = p.times[n], n
			continue
		}
		row := slices.Clone(values)
		row[firstColumn-1], row[firstColumn], row[lastColumn] = "idle", p.times[n], p.times[n]
		latest[job] = &open{row, n}
		stretches = append(stretches, row)
	}
	return stretches, seen, unnamed, rows.Err()
}

// count returns how often a file's rows say that a job was seen at a poll.
func (p polls) count(ctx context.Context, path string) (seen int, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var bad error
	at := func(text string) int {
		n, err := strconv.ParseInt(text, 10, 64)
		bad = errors.Join(bad, err)
		return sort.Search(len(p.times), func(i int) bool { return p.times[i] >= n })
	}
	err = parquet.EachRow(ctx, bytes.NewReader(data), int64(len(data)), []string{"first_seen", "last_seen"},
		func(func(string) bool) error { return nil },
		func(row []string) { seen += at(row[1]) - at(row[0]) + 1 })
	return seen, errors.Join(err, bad)
}
