package cover

// Present returns a Coverage for machines that run the desired Kubernetes version already, though their objects do not say so: that field needs nobody
// to cover it.
func (c *Coverage) Present() *Coverage {
	next := *c
	path := tokens(c.versionPath())
	next.current[machineIndex] = put(c.current[machineIndex], path, lookup(c.desired[machineIndex], c.versionPath()))
	return &next
}
