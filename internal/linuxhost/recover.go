package linuxhost

import "context"

// recoverStep undoes what a run of kubeadm that was cut short has done to files. It is the first
// step of every goal: without it, the host may be unable to tell what it is, or its API server to
// start.
func recoverStep(g Goal) Step {
	return Step{
		Name:    KubeadmRecover,
		Summary: "put back files that kubeadm was changing when it was cut short",
		Check:   g.script("kubeadm-recover-check"),
		Action:  g.run(upgradeLimit, "kubeadm-recover"),
	}
}

// addRecovery returns the steps of a host on which kubeadm was cut short. One that cannot be
// upgraded to the goal is repaired as well.
func addRecovery(g Goal, steps []Step, refused *Failure) ([]Step, *Failure) {
	if refused != nil {
		return []Step{recoverStep(g)}, nil
	}
	return append([]Step{recoverStep(g)}, steps...), nil
}

// decideRecovery decides about the first step of a host on which kubeadm was cut short, before
// anything is asked of the host. A kubeadm that this attempt has run, and that took too long, ends
// the attempt.
func decideRecovery(g Goal, first Step, s Seen) Progress {
	if ranInAttempt(g, KubeadmUpgrade, s) && s.Facts.Job.State == JobEnded {
		return fails(FailureOf(s.Facts.Job))
	}
	return decideStep(g, first, s)
}

// findRecovery returns the progress that begins KubeadmRecover or PutBack on a host where nothing
// else is to begin; ok is false if there is nothing to undo. It also undoes a kubeadm that failed or timed out
// in this attempt, because no other attempt follows.
func (r Report) findRecovery() (p Progress, ok bool) {
	p = r.Next
	if p.Failure != nil && p.Failure.Step == KubeadmUpgrade && r.Facts.Cut && !r.Steps[0].Done {
		p.Step, p.Begin, p.Failure = r.Steps[0].Step.Name, r.Steps[0].Step.Action, nil
	}
	return p, (p.Step == KubeadmRecover || isPutBack(p.Step)) && p.Begin != nil
}

// undo begins KubeadmRecover or PutBack, and waits for it: nothing else begins.
func (u Upgrade) undo(ctx context.Context, p Progress) (Progress, error) {
	p, err := u.begin(ctx, p)
	p.Begin = nil
	if p.Message == "" && p.Failure == nil {
		p.Message = "putting back what the upgrade has changed"
	}
	return p, err
}

// ranInAttempt reports whether the last job is the step of this attempt. A job that had other
// digests tells nothing about these.
func ranInAttempt(g Goal, step Name, s Seen) bool {
	job := s.Facts.Job
	return job.Operation == g.Operation() && job.Step == step && job.Attempt == s.Attempt &&
		job.Manifest == g.Manifest()
}
