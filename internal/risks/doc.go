// Package risks holds known risks of upgrades as data: steps between versions that are known to end
// badly for some clusters, with public sources. A list of them is built in. A file of the user can
// replace it, if it has a signature of the user's key.
//
// Everything here is pure. A Set is immutable after Parse, so it is safe for concurrent use.
package risks
