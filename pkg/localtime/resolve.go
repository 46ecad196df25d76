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
// the previous timestamp is meant.
func (r *Resolver) Read(text []byte) (Reading, error) {
	local, err := ParseLocal(text)
	if err != nil {
		return Reading{}, err
	}
	return r.Resolve(local), nil
}

// Resolve is Read of a timestamp that is parsed already: microseconds since 1970-01-01 00:00:00 of the collector's
// clock.
func (r *Resolver) Resolve(local pool.Micros) Reading {
	o := r.zone.occurrences(local)
	got := Reading{Time: o.times[len(o.times)-1], Repeated: len(o.times) > 1, Missing: o.missing}
	if i := slices.IndexFunc(o.times, func(t pool.Micros) bool { return t > r.previous }); i >= 0 {
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
	case before == after:
		return found{times: []pool.Micros{early}}
	case isEarly && isLate:
		return found{times: []pool.Micros{early, late}}
	case isEarly:
		return found{times: []pool.Micros{early}}
	case isLate:
		return found{times: []pool.Micros{late}}
	}
	return found{times: []pool.Micros{early}, missing: true}
}

// form is how the collector writes a timestamp, in front of its fraction.
const form = "YYYY-MM-DD HH:MM:SS"

// ParseLocal reads a timestamp, YYYY-MM-DD HH:MM:SS[.ffffff], with a space or a T between, as if it were UTC.
func ParseLocal(text []byte) (pool.Micros, error) {
	bad := func() (pool.Micros, error) {
		return 0, fmt.Errorf("timestamp %.40q is not of the form %s[.ffffff]", text, form)
	}
	if !formed(text) {
		return bad()
	}
	number := func(from, to int) (n int) {
		for _, c := range text[from:to] {
			n = 10*n + int(c-'0')
		}
		return n
	}
	year, month, day := number(0, 4), time.Month(number(5, 7)), number(8, 10)
	hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
	t := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	if t.Month() != month || t.Day() != day || t.Hour() != hour || t.Minute() != minute || t.Second() != second {
		return bad()
	}
	fraction, digits := 0, 0
	for _, c := range text[min(20, len(text)):] {
		if digits < 6 { // the collector writes microseconds
			fraction, digits = 10*fraction+int(c-'0'), digits+1
		}
	}
	for ; digits > 0 && digits < 6; digits++ {
		fraction *= 10
	}
	return t.UnixMicro() + pool.Micros(fraction), nil
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

// formed reports whether the text has digits and marks where the form has them.
func formed(text []byte) bool {
	if len(text) < len(form) || len(text) == len(form)+1 || len(text) > len(form)+10 {
		return false
	}
	for i, c := range text {
		ok := c >= '0' && c <= '9'
		switch i {
		case 4, 7:
			ok = c == '-'
		case 10:
			ok = c == ' ' || c == 'T'
		case 13, 16:
			ok = c == ':'
		case 19:
			ok = c == '.'
		}
		if !ok {
			return false
		}
	}
	return true
}
