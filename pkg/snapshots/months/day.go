package months

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// margin is how much more is read on both sides of a day: repeated hours and late snapshots are up to an hour elsewhere
// in the order of local time than in the order of time, and a snapshot can last minutes. Rows that are farther off make
// a file unordered.
const margin = pool.Hour + longest + pool.Minute

// reach returns how much more is read on both sides of a day: the margin, or a day where a move to another zone, or
// a clock that is set back by more than an hour (Antarctica/Troll), repeats more than that.
func reach(date int32, zone *localtime.Zone) pool.Micros {
	from, to := pool.Micros(date-1)*pool.Day, pool.Micros(date+2)*pool.Day
	if zone.Changes(from, to) || zone.Offset(from)-zone.Offset(to) > pool.Hour {
		return pool.Day
	}
	return margin
}

// around returns the range of local time in which the day's rows can be.
func around(date int32, zone *localtime.Zone) (from, to Local) {
	begin, wide := pool.Micros(date)*pool.Day, reach(date, zone)
	return zone.Local(begin - wide), zone.Local(begin + pool.Day + wide)
}

// steady reports whether the zone's offset is the same wherever rows of the day can be.
func steady(date int32, zone *localtime.Zone) bool {
	begin := pool.Micros(date) * pool.Day
	return reach(date, zone) == margin && zone.Offset(begin-margin) == zone.Offset(begin+pool.Day+margin)
}

// day returns the pieces of files that the day's rows are in.
func (s *state) day(date int32) []piece { return s.pieces(around(date, s.source.zone)) }

// locate finds the rows of the piece. Those of a sealed file are known by its version.
func (p *piece) locate(ctx context.Context) (found source, err error) {
	if p.sealed() {
		return source{Name: p.Name, Columns: sealedColumns, Closed: true, Cut: p.cut, Fingerprint: p.Version}, nil
	}
	found = source{Name: p.Name, Columns: columnsKey(p.info.Columns), Cut: p.cut}
	if found.Rows, err = p.content.Seek(ctx, p.from, p.to); err == nil {
		found.Closed = found.Rows.Last < p.info.Rows.Last
	}
	return found, err
}

// fingerprint fills in the fingerprint of the piece's rows. That of a sealed file is known.
func (p *piece) fingerprint(ctx context.Context, found *source) (err error) {
	if !p.sealed() {
		found.Fingerprint, err = p.content.Fingerprint(ctx, found.Rows)
	}
	return err
}

func (s *state) Key(ctx context.Context, date int32) (snapshots.Key, error) {
	var sources []source
	pieces := s.day(date)
	for _, p := range pieces {
		found, err := p.locate(ctx)
		if err == nil {
			err = p.fingerprint(ctx, &found)
		}
		if err != nil {
			return snapshots.Key{}, fmt.Errorf("find the rows of the day: %w", err)
		}
		sources = append(sources, found)
	}
	return snapshots.Key{Content: s.content(sources), Version: versionOf(pieces)}, nil
}

func (s *state) Version(date int32) string {
	pieces := s.day(date)
	if slices.ContainsFunc(pieces, func(p piece) bool { return !p.sealed() && !p.content.Verified() }) {
		return ""
	}
	return versionOf(pieces)
}

// versionOf returns the versions of the pieces' files, one line each; "" if one has none.
func versionOf(pieces []piece) string {
	var all []string
	for _, p := range pieces {
		version := p.Version
		if !p.sealed() {
			version = p.content.Version()
		}
		if version == "" {
			return ""
		}
		all = append(all, p.Name+" "+version)
	}
	return strings.Join(all, "\n")
}

func (s *state) Identity(key snapshots.Key) string {
	sources, ok := s.parse(key.Content)
	if !ok {
		return ""
	}
	identity := hash(s.source.zone.Rules())
	for _, from := range sources {
		if from.Fingerprint == "" {
			return ""
		}
		if from.Columns == sealedColumns || !from.Rows.Empty() {
			print := from.Fingerprint[strings.LastIndexByte(from.Fingerprint, ' ')+1:] // without a file's version
			identity += "\n" + from.Columns + " " + from.Cut + " " + print
		}
	}
	return identity
}

func (s *state) Holds(ctx context.Context, date int32, k snapshots.Known) (bool, error) {
	if k.Content == "" {
		return false, nil
	}
	if k.State == snapshots.State(s) {
		return true, nil
	}
	pieces := s.day(date)
	sources, ok, err := s.unchanged(ctx, pieces, k)
	if !ok || len(sources) != len(pieces) || err != nil {
		return false, err
	}
	for i, p := range pieces {
		if !sources[i].Closed && sources[i].Rows.Last != p.info.Rows.Last {
			return false, nil
		}
	}
	return true, nil
}

// unchanged returns the sources of a key, which are those of the first pieces, in their order; ok reports whether the
// rows that they name are unchanged. Other rows may have been appended.
func (s *state) unchanged(ctx context.Context, pieces []piece, k snapshots.Known) (sources []source, ok bool,
	err error) {
	sources, ok = s.parse(k.Content)
	if !ok || len(sources) > len(pieces) {
		return nil, false, nil
	}
	before, _ := k.State.(*state)
	versions := strings.Split(k.Version, "\n")
	for i := range sources {
		p, known := pieces[i], sources[i]
		if p.sealed() {
			found, err := p.locate(ctx)
			if known != found || err != nil {
				return nil, false, err
			}
			continue
		}
		if known.Name != p.Name || known.Cut != p.cut {
			return nil, false, nil
		}
		var then *file
		if before != nil && before.source == s.source {
			then = before.find(p.Name)
		}
		version := ""
		if i < len(versions) {
			version = strings.TrimPrefix(versions[i], p.Name+" ")
		}
		if ok, err = p.unchanged(ctx, &known, then, version); !ok || err != nil {
			return nil, false, err
		}
	}
	return sources, true, nil
}

// unchanged reports whether the rows of a source are unchanged. If this process read them, they are if there were no
// edits since, provided that the file was in the state then (then is nil otherwise); if another process did, the file's
// version can show it. If neither does, the rows are hashed.
func (p *piece) unchanged(ctx context.Context, known *source, then *file, version string) (bool, error) {
	if known.Columns != columnsKey(p.info.Columns) ||
		p.info.Rows.First > known.Rows.First || p.info.Rows.Last < known.Rows.Last ||
		p.info.Unordered && Find(p.info.Stretches, p.from, p.to) != known.Rows {
		return false, nil
	}
	if then == nil || then.err != nil {
		same, err := p.content.Unchanged(ctx, version, known.Rows, known.Fingerprint)
		if same || err != nil {
			return same, err
		}
	} else if then.info.Edits == p.info.Edits {
		return true, nil
	}
	found, err := p.content.Seek(ctx, p.from, p.to)
	switch { // rows next to them may be of another time now
	case err != nil:
		return false, err
	case known.Rows.Empty() && (found.Empty() || !known.Closed):
	case found.First != known.Rows.First, found.Last < known.Rows.Last, known.Closed && found.Last > known.Rows.Last:
		return false, nil
	}
	fingerprint, err := p.content.Fingerprint(ctx, known.Rows)
	grown := strings.HasSuffix(fingerprint, " "+known.Fingerprint) // the fingerprint is from when the month still grew
	return fingerprint != "" && (fingerprint == known.Fingerprint || grown), err
}

func (s *state) Rows(
	ctx context.Context, date int32, from snapshots.Known, v snapshots.Visitor,
) (snapshots.Reading, error) {
	pieces := s.day(date)
	var r *reading
	var err error
	if begin, ok := parseMark(from.Mark); ok && steady(date, s.source.zone) {
		var before []source
		if before, ok, err = s.unchanged(ctx, pieces, from); ok && len(before) > 0 {
			r, err = s.read(ctx, date, pieces, begin, before)
		}
	}
	if r == nil && err == nil { // it cannot be resumed
		r, err = s.read(ctx, date, pieces, mark{}, nil)
	}
	if err != nil {
		return snapshots.Reading{}, err
	}
	return r.give(s, v)
}

// rows returns the rows of an opened piece, found before it was opened if that was possible.
func (p piece) rows(ctx context.Context, found Range) (Range, error) {
	if p.sealed() {
		return p.content.Seek(ctx, p.from, p.to)
	}
	return found, nil
}

// read reads all rows that can belong to a day, or those from its newest snapshot onward if its sources are known from
// before; nil if rows came before that one.
func (s *state) read(ctx context.Context, date int32, pieces []piece, begin mark, before []source) (*reading, error) {
	// Open the files that the rows are read from: the piece with the newest snapshot, and those after it.
	first := max(len(before)-1, 0)
	rest, err := opened(ctx, pieces[first:])
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(rest, func(p piece) bool { return p.err != nil }); i >= 0 {
		return nil, rest[i].err
	}
	// Locate each piece. One that is known from before must have grown at most.
	r := &reading{date: date, limit: s.source.limit.Load(), table: table{ids: map[string]uint32{}},
		resumed: len(before) > 0, oddities: begin.Ahead}
	known := int32(noDate)
	if r.resumed {
		known = date
	}
	resolver := *s.source.zone.NewResolver()
	for n, p := range append(pieces[:first:first], rest...) {
		found, err := p.locate(ctx)
		if err != nil {
			return nil, err
		}
		if n < len(before) {
			if !grew(before[n].Rows, found.Rows, n == first) {
				return nil, nil
			}
			// hashed before they are read, so that an edit in between shows at the next comparison
			if err := p.fingerprint(ctx, &found); err != nil {
				return nil, err
			}
		}
		r.sources = append(r.sources, found)
		if n < first {
			continue
		}
		// Give its rows to a visitor that sorts them.
		rows, err := p.rows(ctx, found.Rows)
		if err != nil {
			return nil, err
		}
		if r.resumed && n == first {
			rows.First = begin.Number
		}
		v := &visitor{reading: r, Resolver: resolver, source: n, piece: p, begin: pool.Micros(date) * pool.Day,
			beginning: rows.First == p.info.Rows.First, last: unread, read: known}
		if err := p.content.Scan(ctx, rows, v); err != nil {
			return nil, err
		}
		if n >= len(before) { // the scan can have hashed them
			if err := p.fingerprint(ctx, &r.sources[n]); err != nil {
				return nil, err
			}
		}
		r.rows += max(0, rows.Last-rows.First+1)
		resolver = v.Resolver // the previous snapshot may be in the file before
	}
	// Make snapshots of the rows.
	blocks := slices.DeleteFunc(r.blocks, func(b block) bool { return b.dataSlots && len(b.rows) == 0 })
	r.all = slices.DeleteFunc(r.table.unite(blocks), func(u united) bool { return pool.DayOf(u.time) != date })
	if r.resumed && (len(r.all) == 0 || r.all[0].time != begin.Time) {
		return nil, nil // rows came late
	}
	return r, nil
}

// grew reports whether the rows are the same as before, or, in the newest file, the same with more rows after them.
func grew(before, now Range, newest bool) bool {
	return now.First == before.First && now.Last >= before.Last && (newest || now.Last == before.Last)
}
