package frames

import (
	"cmp"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// States is the course of a GPU through a window, or of the GPUs of a device on a machine: a state at each time.
type States struct {
	Device, Machine, GPU string // no GPU: all of the device on the machine
	Times                []pool.Micros
	States               []int8  // negative: unknown
	Shares               []Share // in addition to the state, for several GPUs
}

// Share is the part of GPUs that are in a state, in percent, by the times of States; NaN if it is unknown.
type Share struct {
	State  string
	Values []float64
}

// StateTimeline returns a frame for each entry of all, at most most unless the query has a limit.
func StateTimeline(p *query.Plan, a *About, most int, all []States, mappings data.ValueMappings) data.Frames {
	what := "GPUs"
	if len(all) > 0 && all[0].GPU == "" {
		what = "machines and devices"
	}
	shown := all[:a.cut(p, len(all), most, what)]
	shown = shown[:a.fit(len(shown), what, func(i int) int { return len(shown[i].Times) * (1 + len(shown[i].Shares)) })]
	var frames data.Frames
	for i := range shown {
		s := &shown[i]
		labels := data.Labels{"device": s.Device, "machine": s.Machine}
		if s.GPU != "" {
			labels["gpu"] = s.GPU
		}
		name := s.name(p, labels)
		at, states := make([]time.Time, len(s.Times)), make([]*int8, len(s.Times))
		for k, t := range s.Times {
			at[k] = pool.Time(t)
			if s.States[k] >= 0 {
				states[k] = &s.States[k]
			}
		}
		state := data.NewField("state", labels, states)
		state.Config = column(p, "state")
		state.Config.DisplayNameFromDS, state.Config.Mappings = name, mappings
		f := data.NewFrame("", data.NewField("time", nil, at), state)
		for _, share := range s.Shares {
			field := Number(share.State, share.Values)
			field.Labels = labels
			field.Config.Unit, field.Config.DisplayNameFromDS = query.Percent, name+" "+share.State+" %"
			f.Fields = append(f.Fields, field)
		}
		f.Meta = meta(frameType(p))
		frames = append(frames, f)
	}
	return a.Finish(frames)
}

// name is the name by the query's legend, or otherwise that of the GPU, or of the device and machine.
func (s *States) name(p *query.Plan, labels data.Labels) string {
	device := cmp.Or(p.ShownAs("device")[s.Device], s.Device)
	name := p.Legend.Name(func(key string) string {
		if key == "device" {
			return device
		}
		return labels[key]
	})
	if s.GPU == "" {
		return cmp.Or(name, device+" · "+s.Machine)
	}
	return cmp.Or(name, s.Machine+" "+s.GPU)
}
