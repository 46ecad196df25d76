// Package pool holds the words of the domain: what a slot, a GPU, a state, a category and an ownership are
// (methodology sections 2, 3 and 5). It imports the standard library only; everything else imports it.
package pool
