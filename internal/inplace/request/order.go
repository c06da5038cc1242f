package request

// Order returns the machines that an upgrade of their group is about, in the order in which they are upgraded.
func Order(members []Member) []Member { return counted(sorted(members)) }
