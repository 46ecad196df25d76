package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/chtc/gpureports/pkg/pool"
)

// idleJobs is what condor_q is asked for: jobs that are idle and ask for GPUs.
const idleJobs = "RequestGPUs >= 1 && JobStatus == 1"

// jobAttributes are what condor_q is asked for of each job.
var jobAttributes = []string{"GlobalJobId", "Owner", "RequestGPUs", "RequestCPUs", "RequestMemory", "RequestGPUMemory",
	"QDate", "ChtcProjects"}

// jobAd is what is kept of an idle job's ad. JSON names are matched in any case, as ClassAds do.
type jobAd struct {
	GlobalJobID      text `json:"GlobalJobId"`
	Owner            text
	RequestGPUs      number
	RequestCPUs      number
	RequestMemory    number
	RequestGPUMemory number
	QDate            integer
	ChtcProjects     text

	schedd string
}

// decodeJobs reads what condor_q -json prints: a JSON array, or nothing when no job fits. A GlobalJobId is a text in
// every ad, so anything else is not condor_q's output and an error.
func decodeJobs(r io.Reader, schedd string, notes *jobNotes) (ads []jobAd, err error) {
	err = eachAd(r, "condor_q", func(raw json.RawMessage) error {
		ad := jobAd{schedd: schedd}
		if err := json.Unmarshal(raw, &ad); err != nil {
			return err
		}
		if !ad.GlobalJobID.Valid || ad.GlobalJobID.Text == "" {
			return errors.New("an ad has no GlobalJobId")
		}
		notes.of(&ad, utf8.Valid(raw))
		ads = append(ads, ad)
		return nil
	})
	return ads, err
}

// decodeNames reads what condor_status -schedd prints: the names of the access points.
func decodeNames(r io.Reader) (names []string, err error) {
	err = eachAd(r, "condor_status", func(raw json.RawMessage) error {
		var ad struct{ Name text }
		if err := json.Unmarshal(raw, &ad); err != nil {
			return err
		}
		if !ad.Name.Valid || ad.Name.Text == "" {
			return errors.New("an ad has no Name")
		}
		names = append(names, ad.Name.Text)
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// eachAd reads the JSON array that one of HTCondor's tools prints; it prints nothing when nothing fits.
func eachAd(r io.Reader, program string, take func(json.RawMessage) error) error {
	n := 0
	broken := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends in the middle")
		}
		return pool.SourceError("%s's output is not what it should be, after %d ads: %w", program, n, err)
	}
	d := json.NewDecoder(r)
	open, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return broken(err)
	}
	if open != json.Delim('[') {
		return broken(fmt.Errorf("it begins with %v, not with a list", open))
	}
	for ; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return broken(err)
		}
		if err := take(raw); err != nil {
			return broken(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return broken(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return broken(errors.New("it goes on after the list"))
	}
	return nil
}

// row are the values of a job's row, in the order of pressureColumns, with the poll for first_seen and last_seen. As
// the poller in use does: a text that is missing is empty, and a memory of no more than 0 is none.
func (ad *jobAd) row(poll int64) []any {
	memory := ad.RequestGPUMemory.column()
	if ad.RequestGPUMemory.Number <= 0 {
		memory = nil
	}
	return []any{ad.GlobalJobID.Text, ad.schedd, ad.Owner.Text, ad.RequestGPUs.column(), ad.RequestCPUs.column(),
		ad.RequestMemory.column(), memory,
		ad.QDate.column(), ad.ChtcProjects.Text, poll, poll}
}

// jobNotes are what could not be stored as it was.
type jobNotes struct {
	unread  map[string]int // by attribute
	foreign int            // ads with bytes that are no UTF-8
	first   string         // the first job concerned
}

func (n *jobNotes) of(ad *jobAd, valid bool) {
	note := func() {
		if n.first == "" {
			n.first = ad.GlobalJobID.Text
		}
	}
	if !valid {
		n.foreign++
		note()
	}
	for i, bad := range [...]bool{
		ad.Owner.bad, ad.RequestGPUs.bad, ad.RequestCPUs.bad, ad.RequestMemory.bad, ad.RequestGPUMemory.bad, ad.QDate.bad,
		ad.ChtcProjects.bad,
	} {
		if bad {
			if n.unread == nil {
				n.unread = map[string]int{}
			}
			n.unread[jobAttributes[1+i]]++
			note()
		}
	}
}

// add adds the notes on another access point's ads.
func (n *jobNotes) add(other *jobNotes) {
	for name, count := range other.unread {
		if n.unread == nil {
			n.unread = map[string]int{}
		}
		n.unread[name] += count
	}
	n.foreign += other.foreign
	if n.first == "" {
		n.first = other.first
	}
}

// parts are sentences, none if there is nothing to note.
func (n *jobNotes) parts() (parts []string) {
	for _, name := range jobAttributes {
		if count := n.unread[name]; count > 0 {
			parts = append(parts, fmt.Sprintf("%s of %d jobs is an expression or of a wrong type: stored as missing", name,
				count))
		}
	}
	if n.foreign > 0 {
		parts = append(parts, fmt.Sprintf("%d jobs hold bytes that are no UTF-8: stored as U+FFFD", n.foreign))
	}
	if len(parts) > 0 {
		parts[len(parts)-1] += " (first: " + strings.TrimSpace(n.first) + ")"
	}
	return parts
}
