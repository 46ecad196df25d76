// Package localtime reads the collector's local time (methodology section 1) and forms slices and calendar buckets
// in it (sections 4 and 5). Zones come from the embedded database, so that every machine knows the same ones.
package localtime

import (
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
		if d == Newest() {
			return UTC, nil
		}
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
	for _, p := range z.parts {
		if t < p.to {
			return offset(p.location, t)
		}
	}
	return 0 // not reached: the last part has no end
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
