// Package differential compares the planner of this project with the one in Cluster API, over many random inputs.
//
// Where the two differ, a third party decides: an oracle that knows nothing of either planner, only the rules, and
// finds the fewest worker stops by looking at all there could be. Our planner must agree with the oracle on every
// input. Where upstream's does not, the difference must belong to a class that is known beforehand; the test counts
// them. A difference outside of every class fails, and is printed as small as it can be made, ready to become a case of
// a table.
//
// It is a module of its own, so that the product does not depend on upstream's planner.
package differential
