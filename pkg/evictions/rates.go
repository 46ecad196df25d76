package evictions

import "github.com/chtc/gpureports/pkg/frames"

// rates counts an answer's rates, so that those without a value are not taken for hours without evictions.
type rates struct{ all, leftOut int }

// add counts the rate of a cell. A cell without a run has none.
func (r *rates) add(evictions int, gpuHours float64) {
	if evictions == 0 && gpuHours == 0 {
		return
	}
	r.all++
	if tooFew(gpuHours) {
		r.leftOut++
	}
}

// notice adds a notice if rates were left out.
func (r *rates) notice(about *frames.About) {
	if r.leftOut > 0 {
		about.Info("%s of %s eviction rates rest on less than %d GPU hour and have no value", frames.Thousands(r.leftOut),
			frames.Thousands(r.all), leastHours)
	}
}
