package collect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// constraint selects slots with GPUs, including one whose only GPU was taken offline under its job: it has GPUs = 0.
const constraint = "GPUs >= 1 || AssignedGPUs isnt undefined"

// query runs condor_status and decodes its output as it arrives.
func query(asked context.Context, o Options) (slotList, error) {
	args := []string{"-constraint", constraint, "-json", "-attributes", strings.Join(names(slotAttributes), ",")}
	var got slotList
	complaint, err := o.ask(asked, o.CondorStatus, args, func(output io.Reader) (err error) {
		got, err = decode(output)
		return err
	})
	switch {
	case err != nil:
		return slotList{}, err
	case len(got.slots) == 0:
		return slotList{}, pool.SourceError("%s knows no slot with a GPU%s: is it the right pool, and may this machine "+
			"ask it?", o.CondorStatus, complaint)
	case !slices.ContainsFunc(got.slots, ad.lacksModel):
		return got, nil
	}
	args = []string{"-constraint", "(" + constraint + ") && (GPUs_DeviceName is undefined || " +
		"GPUs_GlobalMemoryMb is undefined)", "-json"}
	_, err = o.ask(asked, o.CondorStatus, args, func(output io.Reader) (err error) {
		got.models, err = decodeModels(output)
		return err
	})
	return got, err
}

// ask runs one of HTCondor's tools, and decodes its output as it arrives. complaint is its standard error.
func (o Options) ask(asked context.Context, program string, args []string,
	decode func(io.Reader) error) (complaint *head, err error) {
	// Prepare the program: it ends in time with its children, and prints no more than a bound.
	ctx, cancel := context.WithTimeoutCause(asked, o.Timeout, errTimeout)
	defer cancel()
	if o.Pool != "" {
		args = append(args, "-pool", o.Pool)
	}
	command := exec.CommandContext(ctx, program, args...)
	output, input := io.Pipe()
	limited, complaint := &io.LimitedReader{R: output, N: int64(o.maxOutput) + 1}, &head{}
	command.Stdout, command.Stderr = input, complaint
	command.WaitDelay = 5 * time.Second // a descendant that left the group may hold the pipes
	ownGroup(command)
	// Run it, and decode its output meanwhile.
	decoded := make(chan struct{})
	var broken error
	parallel.Go(func() error { return decode(limited) }, func(err error) {
		defer close(decoded)
		if broken = err; broken != nil {
			cancel() // nothing that follows can mend it
		}
		_, _ = io.Copy(io.Discard, output)
	})
	failed := command.Run()
	input.Close()
	<-decoded
	// Explain what failed first.
	var exit *exec.ExitError
	switch {
	case asked.Err() != nil:
		err = fmt.Errorf("asking the pool with %s: %w", program, asked.Err())
	case errors.Is(context.Cause(ctx), errTimeout):
		err = pool.SourceError("%s did not end within %s%s: check that the collector answers, or give it more time", program,
			o.Timeout, complaint)
	case limited.N <= 0:
		err = pool.SourceError("%s prints more than %d MiB", program, o.maxOutput>>20)
	case broken != nil && !(errors.As(failed, &exit) && exit.Exited()):
		err = broken
	case errors.As(failed, &exit):
		err = pool.SourceError("%s failed (%w)%s", program, failed, complaint)
	case errors.Is(failed, exec.ErrNotFound):
		err = pool.SourceError("%w: install HTCondor's tools, or give its path", failed)
	case failed != nil:
		err = pool.SourceError("running %s: %w%s", program, failed, complaint)
	}
	return complaint, err
}

var errTimeout = errors.New("time is up")

// head keeps the beginning of the written text.
type head struct {
	text []byte
	more int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), 2000-len(h.text))
	h.text = append(h.text, p[:n]...)
	h.more += len(p) - n
	return len(p), nil
}

// String is the kept text, as the end of a sentence.
func (h *head) String() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(h.text), "\uFFFD"))
	if text == "" {
		return ""
	}
	if h.more > 0 {
		text += fmt.Sprintf("… (%d bytes more)", h.more)
	}
	return ": " + text
}

// slotAttributes are requested from condor_status for each slot. Those of columns have their names.
var slotAttributes = []attribute{
	{"Name", text}, {"Machine", text}, {"State", text}, {"AssignedGPUs", text}, {"AvailableGPUs", idList},
	{"GPUs_DeviceName", text}, {"GPUs_GlobalMemoryMb", integer}, {"PrioritizedProjects", text},
	{"GPUsAverageUsage", literal[float64]}, {"RemoteOwner", text}, {"GlobalJobId", text}, {"PreventJobsReason", text},
	{"Disk", integer}, {"Cpus", integer}, {"Memory", integer}, {"SlotType", text}, {"SlotBrokenReason", text},
	{"BackfillSlot", flag}, {"OfflineGPUs", text},
	{"Offline", flag}, // the machine sleeps
}

// modelAttributes describe a GPU in its nested ad, GPUs_<id>. If a machine's GPUs differ, it has no GPUs_DeviceName.
var modelAttributes = []attribute{{"DeviceName", text}, {"GlobalMemoryMb", integer}}

// slotList is the output of condor_status.
type slotList struct {
	slots  []ad
	models map[gpuAttribute]ad
	asleep int // slots of machines that sleep, which are left out
}

// gpuAttribute is a GPU by its id as attribute names have it.
type gpuAttribute struct{ machine, id string }

// decode reads the JSON array that condor_status -json prints; it prints nothing when no slot fits. Name, Machine and
// State are texts in every ad of a slot, so anything else is not condor_status's output and an error. Another attribute
// that cannot be read (an expression, which only HTCondor can evaluate; a wrong type) is stored as NULL and noted.
func decode(r io.Reader) (a slotList, err error) {
	err = eachAd(r, "condor_status", "slots", slotAttributes, func(slot ad, _ json.RawMessage) error {
		for _, name := range []string{"Name", "Machine", "State"} {
			if slot.text(name) == "" {
				return fmt.Errorf("%s of slot %q is not a text", name, slot.text("Name"))
			}
		}
		if slot.values["Offline"] == int64(1) {
			a.asleep++
		} else {
			a.slots = append(a.slots, slot)
		}
		return nil
	})
	nameGPUs(a.slots)
	return a, err
}

// lacksModel reports whether a slot with GPUs has no common device or memory.
func (a ad) lacksModel() bool {
	return len(a.gpuIDs()) > 0 && (a.values["GPUs_DeviceName"] == nil || a.values["GPUs_GlobalMemoryMb"] == nil)
}

// decodeModels reads the nested ads of GPUs.
func decodeModels(r io.Reader) (map[gpuAttribute]ad, error) {
	models := map[gpuAttribute]ad{}
	err := eachAd(r, "condor_status", "slots", slotAttributes[:2], func(slot ad, raw json.RawMessage) error {
		var all map[string]json.RawMessage
		err := json.Unmarshal(raw, &all)
		for name, value := range all {
			id, nested := strings.CutPrefix(name, "GPUs_")
			if err == nil && nested && bytes.HasPrefix(value, []byte("{")) {
				models[gpuAttribute{slot.text("Machine"), id}], err = readAd(value, modelAttributes)
			}
		}
		return err
	})
	return models, err
}

// leftOut says which GPUs and ads have no row.
func (a *slotList) leftOut() string {
	offline := map[[2]string]bool{}
	for _, slot := range a.slots {
		for _, id := range slot.ids("OfflineGPUs") {
			offline[[2]string{slot.text("Machine"), id}] = true
		}
	}
	for _, slot := range a.slots {
		if slot.claimed() {
			for _, id := range slot.ids("AssignedGPUs") {
				delete(offline, [2]string{slot.text("Machine"), id})
			}
		}
	}
	var parts []string
	if n := len(offline); n > 0 {
		parts = append(parts, fmt.Sprintf("GPUs left out because they are offline (OfflineGPUs) and no job holds them: %d",
			n))
	}
	if a.asleep > 0 {
		parts = append(parts, fmt.Sprintf("slots left out because their machine sleeps (Offline): %d", a.asleep))
	}
	return strings.Join(parts, "; ")
}

// columns of gpu_state in their order (methodology section 1, the newer layout).
var columns = []column{
	{"Name", "TEXT"}, {"AssignedGPUs", "TEXT"}, {"AvailableGPUs", "TEXT"}, {"State", "TEXT"}, {"GPUs_DeviceName", "TEXT"},
	{"GPUs_GlobalMemoryMb", "BIGINT"}, {"PrioritizedProjects", "TEXT"}, {"GPUsAverageUsage", "FLOAT"}, {"Machine", "TEXT"},
	{"PreventJobsReason", "TEXT"}, {"RemoteOwner", "TEXT"}, {"GlobalJobId", "TEXT"}, {"timestamp", "DATETIME"},
	{"Disk", "INTEGER"}, {"Cpus", "INTEGER"}, {"Memory", "INTEGER"}, {"SlotType", "TEXT"}, {"SlotBrokenReason", "TEXT"},
	{"BackfillSlot", "INTEGER"},
}

type column struct{ name, affinity string }

// row is a row of a table: values by column. Those that are missing are NULL.
type row map[string]any

// in returns the row's values in the order of columns.
func (r row) in(columns []string) []any {
	values := make([]any, len(columns))
	for i, name := range columns {
		values[i] = r[name]
	}
	return values
}

// claimed reports whether a slot is claimed.
func (a *ad) claimed() bool { return pool.ParseState(a.text("State")) == pool.Claimed }

// gpuIDs are the GPUs of a slot, each of which has a row. A claimed slot has those that are assigned to it, also one
// that was taken offline under its job. Another slot may use those of AvailableGPUs: a GPU that an owner takes vanishes
// from a backfill slot's list, a GPU taken offline from every slot's. If a startd lacks one of the two attributes, the
// other counts.
func (a *ad) gpuIDs() []string {
	ids, listed := a.values["AvailableGPUs"].([]string)
	if assigned := a.ids("AssignedGPUs"); a.claimed() && len(assigned) > 0 || !listed {
		ids = assigned
	}
	if a.claimed() {
		return ids
	}
	offline := a.ids("OfflineGPUs")
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(offline, id) })
}

// ids are the GPUs that an attribute lists.
func (a *ad) ids(name string) []string {
	return strings.FieldsFunc(a.text(name), func(r rune) bool { return r == ',' || r == ' ' })
}

// attributeName is an id as the startd writes it into attribute names, which hold letters, digits and "_" only.
func attributeName(id string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, id)
}

// nameGPUs gives the GPUs of AvailableGPUs the ids that the machine's slots are assigned: the names of attributes do
// not hold all of an id such as MIG-GPU-…/7/0, and the same GPU must have one id on its primary and its backfill slot.
func nameGPUs(slots []ad) {
	ids := map[gpuAttribute]string{}
	for _, slot := range slots {
		for _, id := range slot.ids("AssignedGPUs") {
			ids[gpuAttribute{slot.text("Machine"), attributeName(id)}] = id
		}
	}
	for _, slot := range slots {
		available, _ := slot.values["AvailableGPUs"].([]string)
		for k, id := range available {
			if assigned, known := ids[gpuAttribute{slot.text("Machine"), attributeName(id)}]; known {
				available[k] = assigned
			}
		}
	}
}

// slotRows are a slot's rows. One without GPUs has a row without an id, which shows that the machine reports.
func (a *ad) slotRows(timestamp string, models map[gpuAttribute]ad) []row {
	common := row(maps.Clone(a.values))
	common["timestamp"], common["AssignedGPUs"] = timestamp, nil
	if available, listed := a.values["AvailableGPUs"].([]string); listed {
		common["AvailableGPUs"] = strings.Join(available, ",")
	}
	ids := a.gpuIDs()
	if len(ids) == 0 {
		return []row{common}
	}
	rows := make([]row, len(ids))
	for i, id := range ids {
		own := models[gpuAttribute{a.text("Machine"), attributeName(id)}].values
		rows[i] = maps.Clone(common)
		rows[i]["AssignedGPUs"] = id
		rows[i]["GPUs_DeviceName"] = cmp.Or(common["GPUs_DeviceName"], own["DeviceName"])
		rows[i]["GPUs_GlobalMemoryMb"] = cmp.Or(common["GPUs_GlobalMemoryMb"], own["GlobalMemoryMb"])
	}
	return rows
}
