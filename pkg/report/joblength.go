package report

import (
	"fmt"
	"math"

	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// likely is how likely a job must be to finish, in percent, to be called safe.
const likely = 90

// jobLengths has a device's rows of the view jobLength, by job hours, the shortest first.
type jobLengths struct {
	device string
	safe   float64 // hours of the longest job that is likely to finish, and so are all shorter ones; 0: none
	next   float64 // hours of the shortest job that is not; 0: none, or not known
	finish float64 // percent of the latter that do
	save   float64 // hours after which the longest job of which it is known should save; NaN: not known
	used   float64 // hours after which jobs save today; NaN: not known
	known  bool
}

// jobLengthSentences says of each device how long a backfill job may be, as a user needs it.
func jobLengthSentences(_ layout, frames data.Frames) Block {
	var all []jobLengths
	for _, frame := range frames {
		if len(frame.Fields) == 0 {
			continue
		}
		device, hours := column(frame, "device"), column(frame, "jobHours")
		finish, save := column(frame, "finishPercent"), column(frame, "bestCheckpointHours")
		used := column(frame, "usedCheckpointHours")
		for r := range hours.Len() {
			if n := len(all); n == 0 || all[n-1].device != text(device, r) {
				all = append(all, jobLengths{device: text(device, r), save: math.NaN(), used: number(used, r)})
			}
			all[len(all)-1].add(number(hours, r), number(finish, r), number(save, r))
		}
	}
	var b Block
	for i := range all {
		b.Paragraphs = append(b.Paragraphs, all[i].sentence())
	}
	return b
}

func (j *jobLengths) add(hours, finish, save float64) {
	if !math.IsNaN(save) {
		j.save = save
	}
	switch {
	case math.IsNaN(finish):
	case finish >= likely && j.next == 0:
		j.known, j.safe = true, hours
	case j.next == 0:
		j.known, j.next, j.finish = true, hours, finish
	}
}

func (j *jobLengths) sentence() string {
	if !j.known {
		return fmt.Sprintf("On %s there are too few backfill runs to tell.", clean(j.device))
	}
	said := fmt.Sprintf("On %s, jobs of up to %s finish in one run with %d %% or more", clean(j.device), hoursText(j.safe),
		likely)
	if j.safe == 0 {
		said = fmt.Sprintf("On %s, of jobs of %s only %.0f %% finish in one run", clean(j.device), hoursText(j.next),
			j.finish)
	}
	if j.next == 0 || math.IsNaN(j.save) {
		return said + "."
	}
	said = fmt.Sprintf("%s; longer ones should save every %s", said, hoursText(j.save))
	if !math.IsNaN(j.used) {
		said += fmt.Sprintf(" (jobs that save do so every %s)", hoursText(math.Round(10*j.used)/10))
	}
	return said + "."
}

// hoursText is a length of time in hours, or in minutes below one.
func hoursText(hours float64) string {
	if hours < 1 {
		return fmt.Sprintf("%.0f min", 60*hours)
	}
	return fmt.Sprintf("%g h", hours)
}
