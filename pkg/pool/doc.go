// Package pool defines the terms of the domain: slot, GPU, state, category and ownership (methodology sections 2, 3 and
// 5). It imports the standard library only; everything else imports it.
package pool
