package pool

import (
	"errors"
	"fmt"
)

// Fault says whose fault an error is. Everything that is not one of these is a bug of the product.
type Fault uint8

const (
	// FaultQuery: the query or the settings are wrong. The text names the fault and the valid values.
	FaultQuery Fault = iota + 1
	// FaultSource: a data file or a server did not answer as it should. The text names the problem and a remedy.
	FaultSource
)

// Error is an error with a known fault. Its text is meant for the user.
type Error struct {
	Fault Fault
	text  string
	cause error
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the cause, if one was formatted with %w.
func (e *Error) Unwrap() error { return e.cause }

// BadQuery returns an error that the query or the settings are to blame for.
func BadQuery(format string, args ...any) error { return newError(FaultQuery, format, args) }

// SourceError returns an error that a data file or a server is to blame for.
func SourceError(format string, args ...any) error { return newError(FaultSource, format, args) }

// FaultOf returns the fault of the outermost Error in err's chain, or 0.
func FaultOf(err error) Fault {
	var e *Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return 0
}

func newError(fault Fault, format string, args []any) error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Fault: fault, text: wrapped.Error(), cause: errors.Unwrap(wrapped)}
}
