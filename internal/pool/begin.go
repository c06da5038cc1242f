package pool

// Begin returns how many Machines a rolling update creates and deletes first, before a change is
// done, if all Machines of the group are available. Machines that move count as deleted: both leave
// their Node without Pods.
func (b Budget) Begin() (created, deleted int32) {
	r := Rollout{Budget: b, Old: []Sizes{{
		Replicas: b.Replicas, Target: b.Replicas,
		Counts: Counts{Machines: b.Replicas, Available: b.Replicas, UpToDate: b.Replicas},
	}}}.RollingUpdate(nil)
	return r.New.Target, b.Replicas - r.Old[0].Target
}
