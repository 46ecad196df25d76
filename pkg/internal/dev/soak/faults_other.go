//go:build !unix

package soak

import "context"

// fault is something that happens, and is over when do returns.
type fault struct {
	name   string
	renews bool
	do     func(context.Context) error
}

// all are the faults: none, because they need the signals of a Unix system.
func (*soak) all() []fault {
	return []fault{{"nothing", false, func(context.Context) error { return nil }}}
}
