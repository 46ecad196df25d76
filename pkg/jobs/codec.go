package jobs

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// coder writes entries to bytes, or reads them: the same walk over their fields does both. Numbers are varints, a text
// is written out once and has a number from then on.
type coder struct {
	reading bool
	bytes   []byte // written, or to be read
	at      int    // as many of them were read
	damaged bool   // what was read cannot have been written

	numbers map[string]uint64 // of texts, when writing
	texts   []string          // by number, when reading
	remarks []*Remark         // that were read
}

func newCoder() *coder { return &coder{numbers: map[string]uint64{}} }

func (c *coder) uint(v *uint64) {
	if !c.reading {
		c.bytes = binary.AppendUvarint(c.bytes, *v)
		return
	}
	if c.at < len(c.bytes) && c.bytes[c.at] < 0x80 { // as most of them
		*v = uint64(c.bytes[c.at])
		c.at++
		return
	}
	value, n := binary.Uvarint(c.bytes[c.at:])
	if n <= 0 {
		c.damaged = true
		return
	}
	*v = value
	c.at += n
}

func (c *coder) signed(v *int64) {
	u := uint64(*v<<1) ^ uint64(*v>>63)
	c.uint(&u)
	*v = int64(u>>1) ^ -int64(u&1)
}

func (c *coder) int(v *int) {
	n := int64(*v)
	c.signed(&n)
	*v = int(n)
}

// count is the length of a list; each member takes a byte at least.
func (c *coder) count(n int) int {
	u := uint64(n)
	if c.uint(&u); c.reading && u > uint64(len(c.bytes)-c.at) {
		c.damaged = true
	}
	if c.damaged {
		return 0
	}
	return int(u)
}

func (c *coder) bool(v *bool) {
	var u uint64
	if *v {
		u = 1
	}
	c.uint(&u)
	*v = u == 1
}

// float writes small whole numbers short.
func (c *coder) float(v *float64) {
	u := bits.ReverseBytes64(math.Float64bits(*v))
	c.uint(&u)
	*v = math.Float64frombits(bits.ReverseBytes64(u))
}

func (c *coder) date(d *Date) {
	seconds := int64(*d)
	c.signed(&seconds)
	*d = Date(seconds)
}

func (c *coder) text(s *string) {
	number, known := c.numbers[*s]
	if !c.reading && !known {
		number = uint64(len(c.numbers))
		c.numbers[*s] = number
	}
	c.uint(&number)
	switch {
	case !c.reading:
		if !known {
			c.bytes = binary.AppendUvarint(c.bytes, uint64(len(*s)))
			c.bytes = append(c.bytes, *s...)
		}
	case c.damaged || number > uint64(len(c.texts)):
		c.damaged = true
	case number == uint64(len(c.texts)): // its first time
		if n := c.count(0); !c.damaged {
			c.texts = append(c.texts, string(c.bytes[c.at:c.at+n]))
			c.at += n
			*s = c.texts[number]
		}
	default:
		*s = c.texts[number]
	}
}

// members walks over the members of a list; an empty one is nil.
func members[T any](c *coder, all *[]T, member func(*T)) {
	n := c.count(len(*all))
	if c.reading && n > 0 {
		*all = make([]T, n)
	}
	for i := 0; i < n && !c.damaged; i++ {
		member(&(*all)[i])
	}
}

// ad walks over all fields of an ad.
func (c *coder) ad(a *Ad) {
	kind := int(a.Kind)
	c.int(&kind)
	if a.Kind = Kind(kind); kind < int(Other) || kind > int(Epoch) {
		c.damaged = true
	}
	for _, s := range []*string{&a.GlobalJobID, &a.AccessPoint, &a.User, &a.Machine, &a.Slot, &a.Owner,
		&a.ChtcProjects} {
		c.text(s)
	}
	members(c, &a.GPUs, c.text)
	for _, d := range []*Date{&a.RecordTime, &a.JobStartDate, &a.JobLastStartDate, &a.JobCurrentStartDate,
		&a.CompletionDate, &a.EnteredCurrentStatus, &a.LastVacateTime, &a.EpochWriteDate, &a.QDate} {
		c.date(d)
	}
	for _, v := range []*float64{&a.LastRemoteWallClockTime, &a.RemoteWallClockTime, &a.CommittedTime, &a.RequestGPUs,
		&a.RequestCPUs, &a.RequestMemory, &a.RequestGPUMemory} {
		c.float(v)
	}
	for _, v := range []*int{&a.JobStatus, &a.LastJobStatus, &a.VacateReasonCode, &a.NumJobStarts, &a.NumShadowStarts,
		&a.NumVacates, &a.NumHolds, &a.Unread} {
		c.int(v)
	}
	for _, v := range []*bool{&a.HasVacateReasonCode, &a.Exited, &a.Refactored} {
		c.bool(v)
	}
}
