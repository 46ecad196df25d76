// Package localtime reads the collector's local time (methodology section 1) and forms slices and calendar buckets
// in it (sections 4 and 5). Zones come from the embedded database, so that every machine knows the same ones.
package localtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Zone is the collector's time zone: one place, or several with the local time until which each was in force.
type Zone struct {
	parts []part
	key   string
	rules string
	data  *Database // nil: the newest
}

type part struct {
	location *time.Location
	from, to pool.Micros // in force in [from, to)
}

const (
	beginning pool.Micros = -1 << 62
	end       pool.Micros = 1 << 62
)

// UTC is the zone of a collector that writes UTC.
var UTC = &Zone{parts: []part{{time.UTC, beginning, end}}, key: "UTC", rules: "UTC"}

// Parse reads the setting `timezone`: an IANA name or a list of {"until": local time, "zone": name}, the last without
// until.
func (d *Database) Parse(setting json.RawMessage) (*Zone, error) {
	if text := strings.TrimSpace(string(setting)); text == "" || text == "null" || text == `""` {
		utc := *UTC
		utc.data = d
		return &utc, nil
	}
	// A name alone, or a list that provisioning hands over as a text.
	var name string
	if json.Unmarshal(setting, &name) == nil {
		if list := strings.TrimSpace(name); strings.HasPrefix(list, "[") {
			return d.Parse(json.RawMessage(list))
		}
		location, transitions, err := d.load(name)
		if err != nil {
			return nil, err
		}
		return &Zone{parts: []part{{location, beginning, end}}, key: name, rules: name + " " + transitions, data: d}, nil
	}
	var list []struct{ Until, Zone string }
	if err := json.Unmarshal(setting, &list); err != nil || len(list) == 0 {
		return nil, pool.BadQuery(`timezone: want an IANA name such as "America/Chicago", or a list [{"until": "2026-05-14 00:00:00", "zone": "America/Chicago"}, {"zone": "UTC"}]`)
	}
	// Join the zones of the list where the clock changed from one to the next.
	zone, from := &Zone{data: d}, beginning
	for i, entry := range list {
		location, transitions, err := d.load(entry.Zone)
		if err != nil {
			return nil, err
		}
		until := end
		if last := i == len(list)-1; last != (entry.Until == "") {
			return nil, pool.BadQuery("timezone: every entry of the list but the last needs `until`, and the last must not "+
				"have it (entry %d)", i+1)
		} else if !last {
			local, err := ParseLocal([]byte(entry.Until))
			if err != nil {
				return nil, pool.BadQuery("timezone: until %q is not a time such as 2026-05-14 00:00:00", entry.Until)
			}
			until = occurrences(location, local).times[0]
		}
		if until <= from {
			return nil, pool.BadQuery("timezone: until %q is not later than the one before it", entry.Until)
		}
		zone.parts = append(zone.parts, part{location, from, until})
		zone.key += fmt.Sprintf("%s until %d;", entry.Zone, until)
		zone.rules += fmt.Sprintf("%s %s until %d;", entry.Zone, transitions, until)
		from = until
	}
	return zone, nil
}

// Database is the database that the zone is of.
func (z *Zone) Database() *Database {
	if z.data == nil {
		return Newest()
	}
	return z.data
}

// Calendar is the zone of calendar buckets: the last one.
func (z *Zone) Calendar() *time.Location { return z.parts[len(z.parts)-1].location }

// Key names the zone as the setting does.
func (z *Zone) Key() string { return z.key }

// Rules identifies how the zone reads a text, by its names and hashes of their transitions: equal rules read equal
// texts alike, in every version of the product.
func (z *Zone) Rules() string { return z.rules }

// Offset is local time minus UTC at t.
func (z *Zone) Offset(t pool.Micros) pool.Micros {
	last := len(z.parts) - 1 // it has no end
	if in := slices.IndexFunc(z.parts[:last], func(p part) bool { return t < p.to }); in >= 0 {
		last = in
	}
	return offset(z.parts[last].location, t)
}

// Slice returns the beginning of the slice that holds t: floored to a multiple of minutes in local time (methodology
// section 4).
func (z *Zone) Slice(t pool.Micros, minutes int) pool.Micros {
	return Floor(t, pool.Micros(minutes)*pool.Minute, z.Offset(t))
}

// Changes reports whether the zone passes from one place to another within [from, to].
func (z *Zone) Changes(from, to pool.Micros) bool {
	return slices.ContainsFunc(z.parts[1:], func(p part) bool { return from <= p.from && p.from <= to })
}

// Local is t by the collector's clock: microseconds since its 1970-01-01 00:00:00.
func (z *Zone) Local(t pool.Micros) pool.Micros { return t + z.Offset(t) }

func offset(location *time.Location, t pool.Micros) pool.Micros {
	_, seconds := time.UnixMicro(t).In(location).Zone()
	return pool.Micros(seconds) * pool.Second
}

// Floor returns the latest multiple of step in local time that is not after t.
func Floor(t, step, offset pool.Micros) pool.Micros {
	rest := (t + offset) % step
	if rest < 0 {
		rest += step
	}
	return t - rest
}

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
