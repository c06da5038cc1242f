package machineset

import "k8s.io/utils/ptr"

func (r *Run) setConditions() {
	if !r.Listed {
		return
	}
	r.Set.Status.Replicas = ptr.To(int32(len(r.Machines)))
}
