package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
)

// Collector builds a [Result] from stored documents; all sources use it, so that they agree on order, duplicates and
// omitted ads. Add may be called from several goroutines.
type Collector struct {
	by    func(*Ad) string
	asked []string
	most  int // ads; 0 = any number

	mu                   sync.Mutex
	found                map[string][]Ad
	unusable, other, bad int
	long                 int // texts that were cut
	kept, cut            int
	values               pool.Values
}

// NewCollector collects the ads whose key is in asked; by returns the key of an ad.
func NewCollector(asked []string, by func(*Ad) string) *Collector {
	c := &Collector{by: by, asked: asked, found: make(map[string][]Ad, len(asked))}
	for _, key := range asked {
		c.found[key] = nil
	}
	return c
}

// ByJob is the key of the ads that Source.Ads looks up.
func ByJob(a *Ad) string { return a.GlobalJobID }

// DayOf is the machine and day of an ad's run; false if the ad does not say when the run began.
func DayOf(a *Ad) (MachineDay, bool) {
	return MachineDay{Machine: a.Machine, Day: a.JobCurrentStartDate.day()}, a.JobCurrentStartDate != 0
}

// NewDayCollector collects the ads that Source.AdsOnMachines looks up. Of ads up to a length it keeps a bounded number.
func NewDayCollector(days []MachineDay) *Collector {
	keys, asked := Keys(days), make(map[MachineDay]int, len(days))
	for i, d := range days {
		asked[MachineDay{Machine: d.Machine, Day: d.Day}] = i
	}
	c := NewCollector(keys, func(a *Ad) string {
		day, began := DayOf(a)
		if i, wanted := asked[day]; began && wanted && days[i].allows(a) {
			return keys[i]
		}
		return ""
	})
	if len(days) > 0 && days[0].Longest > 0 {
		c.most = maxShort
	}
	return c
}

// Keys are the keys of requested items, in order.
func Keys[W interface{ Key() string }](wanted []W) []string {
	keys := make([]string, len(wanted))
	for i, w := range wanted {
		keys[i] = w.Key()
	}
	return keys
}

// Add parses a document and keeps it if it is a history or epoch ad with a wanted key.
func (c *Collector) Add(stored []byte) {
	var values pool.Values
	ad, err := parse(stored, &values)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.unusable++
		return
	}
	key := c.by(&ad)
	ads, asked := c.found[key]
	switch {
	case !asked:
	case ad.Kind == Other:
		c.other++
	case c.most > 0 && c.kept == c.most:
		c.cut++
	default:
		c.kept++
		c.bad += ad.Unread
		c.values.Merge(&values)
		c.long += ad.Cut
		c.found[key] = append(ads, ad)
	}
}

// Result sorts the added ads and counts the omitted ones.
func (c *Collector) Result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, ads := range c.found {
		slices.SortFunc(ads, inOrder)
		c.found[key] = slices.CompactFunc(ads, func(a, b Ad) bool { return Compare(a, b) == 0 })
	}
	result := Result{Ads: make([][]Ad, len(c.asked))}
	for i, key := range c.asked {
		result.Ads[i] = c.found[key]
	}
	result.Partial = c.cut > 0
	note := func(n int, text string, values ...any) {
		if n > 0 {
			result.Notices = append(result.Notices, fmt.Sprintf(text, values...))
		}
	}
	note(c.cut, "More than %d job ads match: %d of them were left out. Ask for a shorter time range.", c.most, c.cut)
	note(c.unusable, "%d stored documents are not job ads (invalid JSON or no GlobalJobId) and were left out.",
		c.unusable)
	note(c.other, "%d documents are neither history nor epoch ads (file transfers, beginnings of epochs) and were left "+
		"out.", c.other)
	note(c.bad, "%d values in job ads could not be read and count as missing.", c.bad)
	if text := c.values.String(); text != "" {
		result.Notices = append(result.Notices, "Job ads have "+text+". Leave out attributes that a job lacks.")
	}
	note(c.long, "%d texts in job ads are longer than %d bytes and were cut.", c.long, pool.MostText)
	return result
}

// inOrder compares ads by [Compare], and those that it does not tell apart by their JSON with sorted names, as far as
// attributes are read: of documents that differ only so, the greater one counts (methodology section 9), whatever the
// order in which they are found.
func inOrder(a, b Ad) int {
	if order := Compare(a, b); order != 0 || reflect.DeepEqual(&a, &b) {
		return order
	}
	return bytes.Compare(b.sorted(), a.sorted())
}

// sorted returns the attributes that the ad has, as JSON with sorted names.
func (a *Ad) sorted() []byte {
	has := map[string]any{}
	of := reflect.ValueOf(a).Elem()
	for _, field := range reflect.VisibleFields(of.Type()) {
		if name := cmp.Or(field.Tag.Get("ad"), field.Name); name != "-" && !of.FieldByIndex(field.Index).IsZero() {
			has[name] = of.FieldByIndex(field.Index).Interface()
		}
	}
	if a.Exited {
		has["ExitCode"] = true
	}
	if a.HasVacateReasonCode {
		has["VacateReasonCode"] = a.VacateReasonCode
	}
	text, _ := json.Marshal(has) // sorts names; never fails for texts and numbers
	return text
}
