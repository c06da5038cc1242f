package cover

// All returns the patches of a change that was found to be covered before: all that differs, whoever covers it.
func (c *Coverage) All() Patches {
	var patches [3]Patch
	for i := range parts {
		spec, desired := lookup(c.original[i], c.base()), lookup(c.desired[i], c.base())
		spec = carry(spec, desired, differences(compared(i, spec), compared(i, desired)))
		patches[i] = makePatch(c.original[i], put(c.original[i], tokens(c.base()), spec))
	}
	return Patches{Machine: patches[0], Infrastructure: patches[1], Bootstrap: patches[2]}
}
