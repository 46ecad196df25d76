package frames

import (
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// States is a GPU's way through a window: a state from each time on, nil where it is unknown.
type States struct {
	Machine, GPU string
	Times        []pool.Micros
	States       []*int8
}

// StateTimeline returns a frame a GPU.
func StateTimeline(p *query.Plan, a *About, all []States, mappings data.ValueMappings) data.Frames {
	shown := all[:min(len(all), p.Max(500))]
	a.cut(len(shown), len(all), "GPUs")
	shown = shown[:a.fit(len(shown), "GPUs", func(i int) int { return len(shown[i].Times) })]
	var frames data.Frames
	for _, s := range shown {
		state := data.NewField("state", data.Labels{"machine": s.Machine, "gpu": s.GPU}, s.States)
		state.Config = column(p, "state")
		state.Config.DisplayNameFromDS = s.Machine + " " + s.GPU
		state.Config.Mappings = mappings
		f := data.NewFrame("", data.NewField("time", nil, timesOf(s.Times)), state)
		f.Meta = meta(frameType(p))
		frames = append(frames, f)
	}
	return a.Finish(frames)
}
