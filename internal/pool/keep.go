package pool

// keepQuestions returns the old MachineSets with Machines whose template differs from the new one.
func (d *draft) keepQuestions() []string {
	return d.rollout.Questions()
}

// keep plans for a group whose Machines no rollout may create or delete.
func (d *draft) keep(coverage map[string]Coverage) Plan {
	return d.plan(coverage)
}
