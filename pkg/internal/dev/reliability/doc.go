// Package reliability holds the tests of docs/reliability.md: the product under faults, load and bad input.
//
// The normal tests run a short version. `go tool mage reliability` runs the long one (-long) and writes its figures
// into docs/reliability.md.
package reliability
