package facts

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Append adds the document of a fact to a buffer: what encoding/json writes, byte by byte, in a sixth of the time.
// Errors: a number that is none.
func (f *Fact) Append(to []byte) ([]byte, error) {
	d := document{text: to}
	d.text = append(d.text, `{"pool":`...)
	d.text = appendText(d.text, f.Pool)
	d.quoted("kind", f.Kind)
	d.whole("hour", f.Hour)
	d.text = append(d.text, `,"complete":`...)
	d.text = strconv.AppendBool(d.text, f.Complete)
	d.coverage(f.Coverage)
	d.group(f)
	d.gpus(f.GPUs)
	d.usage(f.Usage)
	d.backfill(f.Backfill)
	d.evictions(f)
	d.links(f.Links)
	d.occupied(f.Occupied)
	d.waits(f)
	if d.wrong != "" {
		return to, fmt.Errorf("field %s of a fact is not a number", d.wrong)
	}
	return append(d.text, '}'), nil
}

// document is the text of a fact in the making.
type document struct {
	text  []byte
	wrong string // a field whose number is none
}

func (d *document) coverage(c *Coverage) {
	if c == nil {
		return
	}
	d.whole("slices", int64(c.Slices))
	d.number("coveredHours", c.CoveredHours)
	d.whole("snapshots", int64(c.Snapshots))
	d.some("polledHours", c.PolledHours)
}

func (d *document) group(f *Fact) {
	if g := f.Group; g != nil {
		d.quoted("category", g.Category)
		d.quoted("slots", g.Slots)
		d.quoted("device", g.Device)
		d.quoted("memory", g.Memory)
		d.quoted("tier", g.Tier)
		d.quoted("ownership", g.Ownership)
	}
	if f.Project != nil {
		d.quoted("project", *f.Project)
	}
	if f.User != nil {
		d.quoted("user", *f.User)
	}
}

func (d *document) gpus(g *GPUs) {
	if g == nil {
		return
	}
	d.some("claimed", g.Claimed)
	d.some("unclaimed", g.Unclaimed)
	d.some("drained", g.Drained)
	d.some("other", g.Other)
	d.some("free", g.Free)
	d.some("prevented", g.Prevented)
}

func (d *document) usage(u *Usage) {
	if u == nil {
		return
	}
	d.some("held", u.Held)
	d.some("measured", u.Measured)
	d.some("busy", u.Busy)
	d.some("idle", u.Idle)
	d.count("begun", u.Begun)
	d.count("carried", u.Carried)
}

func (d *document) backfill(b *Backfill) {
	if b == nil {
		return
	}
	d.some("backfillHours", b.GPUHours)
	d.count("backfillBegun", b.Begun)
	d.count("backfillCarried", b.Carried)
	d.count("unseenBegun", b.UnseenBegun)
	d.count("unseenCarried", b.UnseenCarried)
	d.count("completed", b.Completed)
	d.count("removed", b.Removed)
	d.count("onHold", b.Held)
	d.count("outOfSight", b.Lost)
	d.count("ambiguous", b.Ambiguous)
}

func (d *document) evictions(f *Fact) {
	if e := f.Evicted; e != nil {
		d.quoted("cause", e.Cause)
		d.quoted("evidence", e.Evidence)
		d.whole("began", e.Began)
	}
	if e := f.Eviction; e != nil {
		d.whole("evictions", int64(e.Evictions))
		d.whole("evictedGpus", int64(e.GPUs))
		d.some("lostFirst", e.First)
		d.some("lostLast", e.Last)
		d.some("lost", e.Lost)
	}
}

func (d *document) links(l *Links) {
	if l == nil {
		return
	}
	d.count("linkedBegun", l.LinkedBegun)
	d.count("linkedCarried", l.LinkedCarried)
	d.count("countedBegun", l.CountedBegun)
	d.count("countedCarried", l.CountedCarried)
	d.count("withoutAds", l.WithoutAds)
}

func (d *document) occupied(o *Occupied) {
	if o == nil {
		return
	}
	d.count("poolAvailable", int(o.Available))
	d.count("poolUsed", int(o.Used))
	d.count("poolTaken", int(o.Taken))
	d.count("poolOther", int(o.Other))
}

func (d *document) waits(f *Fact) {
	if r := f.Request; r != nil {
		d.quoted("schedd", r.Schedd)
		d.quoted("gpus", r.GPUs)
		d.quoted("gpuMemory", r.GPUMemory)
	}
	w := f.Waits
	if w == nil {
		return
	}
	d.count("waitsBegun", w.Begun)
	d.count("waitsCarried", w.Carried)
	d.count("waitsStarted", w.Started)
	d.count("waitsLeft", w.Left)
	d.some("waited", w.Waited)
	d.some("waitingJobHours", w.JobHours)
	d.some("waitingGpuHours", w.GPUHours)
}

func (d *document) name(field string) {
	d.text = append(d.text, `,"`...)
	d.text = append(d.text, field...)
	d.text = append(d.text, `":`...)
}

func (d *document) quoted(field, text string) {
	d.name(field)
	d.text = appendText(d.text, text)
}

func (d *document) whole(field string, n int64) {
	d.name(field)
	d.text = strconv.AppendInt(d.text, n, 10)
}

// count adds a number that is left out if it is zero; so does some.
func (d *document) count(field string, n int) {
	if n != 0 {
		d.whole(field, int64(n))
	}
}

func (d *document) some(field string, n float64) {
	if n != 0 {
		d.number(field, n)
	}
}

// number writes a number as encoding/json does: as JavaScript would.
func (d *document) number(field string, n float64) {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		d.wrong = field
		return
	}
	d.name(field)
	format := byte('f')
	if abs := math.Abs(n); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	d.text = strconv.AppendFloat(d.text, n, format, -1, 64)
	if end := len(d.text); format == 'e' && end >= 4 && d.text[end-4] == 'e' && d.text[end-3] == '-' &&
		d.text[end-2] == '0' { // e-09 is e-9
		d.text[end-2] = d.text[end-1]
		d.text = d.text[:end-1]
	}
}

// appendText adds a text in quotes. Most need no escape.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil { // a text always has JSON
				return append(to, `""`...)
			}
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}
