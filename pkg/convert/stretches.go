package convert

import (
	"context"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// stretches converts a queue file of the older layout: each run of consecutive polls that saw a job becomes one row. An
// outage of more than three intervals of polls ends it, since nothing is known about the time between. For example, of
// a job that was seen at 12:00, 12:30 and 13:30, but not at 13:00, two rows remain: 12:00 to 12:30, and 13:30.
func (s source) stretches(ctx context.Context, table *sqlitefile.Table, zone *localtime.Zone) (all records,
	notes []string, err error) {
	polls, err := s.readPolls(ctx, zone)
	if err != nil {
		return nil, nil, err
	}
	rows, seen, unnamed, err := s.join(ctx, polls, table)
	notes = append(notes, fmt.Sprintf("it had a row for each job and poll: %d sightings at %d polls, whose times are "+
		"read as those of %s", seen, len(polls.times), zone.Calendar()))
	if unnamed > 0 {
		notes = append(notes, fmt.Sprintf("%d rows without GlobalJobId or timestamp are left out", unnamed))
	}
	all = func(yield func([]any, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
	return all, notes, err
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

// places in parquet.QueueSchema of what the polls say.
const statePlace, firstPlace, lastPlace = 9, 10, 11

// join returns the stretches, each as a row of parquet.QueueSchema, in the order in which they begin; how often a job
// was seen at a poll, and the number of rows that name no job or poll.
func (s source) join(ctx context.Context, p polls, table *sqlitefile.Table) (stretches [][]any, seen, unnamed int,
	err error) {
	fields, places := []parquet.Field{{Name: "timestamp"}}, []int{}
	for i, f := range parquet.QueueSchema[:statePlace] {
		if table.Has(f.Name) {
			fields, places = append(fields, f), append(places, i)
		}
	}
	latest := map[string][]any{} // by job
	for values, err := range s.rows(ctx, fields) {
		if err != nil {
			return nil, 0, 0, err
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
		latest[job] = row
		stretches = append(stretches, row)
	}
	return stretches, seen, unnamed, nil
}
