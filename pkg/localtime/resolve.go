package localtime

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Resolver reads the timestamps of one month file, in the order of the file, as UTC (methodology section 1).
type Resolver struct {
	zone     *Zone
	previous pool.Micros
}

// Reading is one timestamp read.
type Reading struct {
	Time     pool.Micros
	Back     bool // a backward step outside a repeated hour: the time is used, the file is out of order here
	Repeated bool // the text is ambiguous between two times
	Missing  bool // the local time does not exist: read with the offset before the change
}

// NewResolver begins at the beginning of the data.
func (z *Zone) NewResolver() *Resolver { return &Resolver{zone: z, previous: beginning} }

// Read resolves the next timestamp: YYYY-MM-DD HH:MM:SS[.ffffff]. If the text is ambiguous, the first time later than
// the previous timestamp is meant, or earlier by less than sameRun.
func (r *Resolver) Read(text []byte) (Reading, error) {
	local, err := ParseLocal(text)
	if err != nil {
		return Reading{}, err
	}
	return r.Resolve(local), nil
}

// sameRun is the least backward step that shows anything: rows of one run of the collector need not be in the order of
// time (methodology section 1).
const sameRun = 20 * pool.Second

// Resolve is Read of a timestamp that is parsed already: microseconds since 1970-01-01 00:00:00 of the collector's
// clock.
func (r *Resolver) Resolve(local pool.Micros) Reading {
	o := r.zone.occurrences(local)
	got := Reading{Time: o.times[len(o.times)-1], Repeated: len(o.times) > 1, Missing: o.missing}
	if i := slices.IndexFunc(o.times, func(t pool.Micros) bool { return t > r.previous-sameRun }); i >= 0 {
		got.Time = o.times[i]
	} else {
		got.Back = true
	}
	r.previous = got.Time
	return got
}

type found struct {
	times   []pool.Micros // ascending, at least one
	missing bool
}

// occurrences returns the times at which the collector's clock showed local.
func (z *Zone) occurrences(local pool.Micros) found {
	var all, nonexistent []pool.Micros
	for _, p := range z.parts {
		f := occurrences(p.location, local)
		for _, t := range f.times {
			switch {
			case t < p.from || t >= p.to:
			case f.missing:
				nonexistent = append(nonexistent, t)
			default:
				all = append(all, t)
			}
		}
	}
	switch {
	case len(all) > 0:
		slices.Sort(all)
		return found{times: slices.Compact(all)}
	case len(nonexistent) > 0:
		return found{times: nonexistent[:1], missing: true}
	}
	// skipped by a change of zone: the zone before the change reads it
	for _, p := range z.parts {
		if f := occurrences(p.location, local); f.times[0] >= p.to {
			return found{times: f.times[:1], missing: true}
		}
	}
	return found{times: occurrences(z.parts[0].location, local).times[:1], missing: true}
}

// occurrences is the same in one place. No place changes its clock twice within 28 hours.
func occurrences(location *time.Location, local pool.Micros) found {
	before, after := offset(location, local-14*pool.Hour), offset(location, local+14*pool.Hour)
	early, late := local-before, local-after
	switch isEarly, isLate := offset(location, early) == before, offset(location, late) == after; {
	case before != after && isEarly && isLate:
		return found{times: []pool.Micros{early, late}}
	case isLate && !isEarly:
		return found{times: []pool.Micros{late}}
	default:
		return found{times: []pool.Micros{early}, missing: !isEarly}
	}
}

// form is how the collector writes a timestamp, in front of its fraction.
const form = "YYYY-MM-DD HH:MM:SS"

// ParseLocal reads a timestamp, YYYY-MM-DD HH:MM:SS[.ffffff], with a space or a T between, as if it were UTC.
func ParseLocal(text []byte) (pool.Micros, error) {
	plain := strings.Replace(string(text), "T", " ", 1)
	t, err := time.Parse(time.DateTime, plain)
	// time.Parse also takes hours of one digit, further spaces, a comma, and fractions of any length
	if err != nil || !strings.HasPrefix(plain, t.Format(time.DateTime)) || strings.Contains(plain, ",") ||
		len(plain) > len(form)+len(".123456789") {
		return 0, fmt.Errorf("timestamp %.40q is not of the form %s[.ffffff]", text, form)
	}
	return t.UnixMicro(), nil
}

// ReadLocal reads a timestamp as ParseLocal does. One with an offset from UTC (Z, +00:00, -0500) is unambiguous: it is
// given as the zone's clock showed it.
func (z *Zone) ReadLocal(text []byte) (pool.Micros, error) {
	i := -1
	if len(text) > len(form) {
		i = bytes.IndexAny(text[len(form):], "Zz+-")
	}
	if i < 0 {
		return ParseLocal(text)
	}
	end := len(form) + i
	local, err := ParseLocal(bytes.TrimRight(text[:end], " "))
	if err != nil {
		return 0, err
	}
	for _, layout := range []string{"Z07:00", "Z0700", "Z07"} {
		if t, err := time.Parse(layout, strings.ToUpper(string(text[end:]))); err == nil {
			_, seconds := t.Zone()
			return z.Local(local - pool.Micros(seconds)*pool.Second), nil
		}
	}
	return 0, fmt.Errorf("timestamp %.40q has no readable offset from UTC", text)
}
