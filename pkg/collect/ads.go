package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/chtc/gpureports/pkg/pool"
)

// slotAd is what a snapshot keeps of a slot's ad. JSON names are matched in any case, as ClassAds do.
type slotAd struct {
	Name                text
	Machine             text
	State               text
	AssignedGPUs        text
	AvailableGPUs       idList
	GPUsDeviceName      text    `json:"GPUs_DeviceName"`
	GPUsGlobalMemoryMb  integer `json:"GPUs_GlobalMemoryMb"`
	PrioritizedProjects text
	GPUsAverageUsage    number
	RemoteOwner         text
	GlobalJobID         text `json:"GlobalJobId"`
	PreventJobsReason   text
	Disk                integer
}

// attributes are what condor_status is asked for.
var attributes = []string{
	"Name", "Machine", "State", "AssignedGPUs", "AvailableGPUs", "GPUs_DeviceName", "GPUs_GlobalMemoryMb",
	"PrioritizedProjects",
	"GPUsAverageUsage", "RemoteOwner", "GlobalJobId", "PreventJobsReason", "Disk",
}

// answer is what condor_status printed.
type answer struct {
	ads   []slotAd
	notes notes
}

// decode reads the JSON array that condor_status -json prints; it prints nothing when no slot fits. Name, Machine and
// State are texts in every ad of a slot, so anything else is not condor_status's output and an error. Another attribute
// that cannot be read (an expression, which only HTCondor can evaluate; a wrong type) is stored as NULL and noted.
func decode(r io.Reader) (answer, error) {
	var a answer
	d := json.NewDecoder(r)
	open, err := d.Token()
	if errors.Is(err, io.EOF) {
		return a, nil
	}
	if err != nil {
		return a, brokenOutput(0, err)
	}
	if open != json.Delim('[') {
		return a, brokenOutput(0, fmt.Errorf("it begins with %v, not with a list", open))
	}
	var raw json.RawMessage
	for d.More() {
		var ad slotAd
		if err := d.Decode(&raw); err != nil {
			return a, brokenOutput(len(a.ads), err)
		}
		if err := json.Unmarshal(raw, &ad); err != nil {
			return a, brokenOutput(len(a.ads), err)
		}
		if err := ad.check(); err != nil {
			return a, brokenOutput(len(a.ads), err)
		}
		a.notes.of(&ad, utf8.Valid(raw))
		a.ads = append(a.ads, ad)
	}
	if _, err := d.Token(); err != nil {
		return a, brokenOutput(len(a.ads), err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return a, brokenOutput(len(a.ads), errors.New("it goes on after the list"))
	}
	nameGPUs(a.ads)
	return a, nil
}

func brokenOutput(ads int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends in the middle")
	}
	return pool.SourceError("condor_status's output is not what it should be, after %d slots: %w", ads, err)
}

func (ad *slotAd) check() error {
	for _, a := range []struct {
		name  string
		value text
	}{{"Name", ad.Name}, {"Machine", ad.Machine}, {"State", ad.State}} {
		if a.value.bad || a.value.Text == "" {
			return fmt.Errorf("%s of slot %q is no text", a.name, ad.Name.Text)
		}
	}
	return nil
}

// notes are what could not be stored as it was.
type notes struct {
	unread  map[string]int // by attribute
	foreign int            // ads with bytes that are no UTF-8
	first   string         // slot of the first of them
}

func (n *notes) of(ad *slotAd, valid bool) {
	note := func() {
		if n.first == "" {
			n.first = ad.Name.Text
		}
	}
	if !valid {
		n.foreign++
		note()
	}
	for i, bad := range [...]bool{
		ad.AssignedGPUs.bad, ad.AvailableGPUs.bad, ad.GPUsDeviceName.bad, ad.GPUsGlobalMemoryMb.bad,
		ad.PrioritizedProjects.bad,
		ad.GPUsAverageUsage.bad, ad.RemoteOwner.bad, ad.GlobalJobID.bad, ad.PreventJobsReason.bad, ad.Disk.bad,
	} {
		if bad {
			if n.unread == nil {
				n.unread = map[string]int{}
			}
			n.unread[attributes[3+i]]++
			note()
		}
	}
}

// String returns the notes as sentences, "" without any.
func (n *notes) String() string {
	var parts []string
	for _, name := range attributes {
		if count := n.unread[name]; count > 0 {
			parts = append(parts, fmt.Sprintf("%s of %d slots is an expression or of a wrong type: stored as NULL", name, count))
		}
	}
	if n.foreign > 0 {
		parts = append(parts, fmt.Sprintf("%d slots hold bytes that are no UTF-8: stored as U+FFFD", n.foreign))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + " (first: " + n.first + ")"
}
