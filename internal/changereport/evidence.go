package changereport

// ApprovalPart is the Part of the Evidence of approvals.
const ApprovalPart = "Who approved"

// listEvidence says where each part of a report comes from.
func listEvidence() []Evidence {
	return []Evidence{
		{
			"Steps and plan",
			"annotations windlass.dev/chain-progress and windlass.dev/last-upgrade of the Cluster, written by windlass manager; without " +
				"it, Events of Cluster API",
			"users who may change the Cluster",
		},
		{
			"Gates", "status of UpgradeGates, written by windlass extension",
			"users who may write upgradegates/status",
		},
		{
			ApprovalPart,
			"the user name that the API server returned to windlass approve (SelfSubjectReview), in the status of the UpgradeGate",
			"users who may write upgradegates/status, also with another name; the proof is the API server's audit log of the patch at that time",
		},
		{
			"Updates in place", "annotations windlass.dev/update-progress and windlass.dev/last-update of Machines, written by windlass extension",
			"users who may change Machines",
		},
		{
			"When Machines were created", "the field metadata.creationTimestamp, set by the API server", "nobody",
		},
		{
			"Since when Machines are Ready", "condition Ready, written by Cluster API",
			"users who may write the status of Machines",
		},
		{
			"Failures", "records of updates, conditions, and Events of type Warning about objects that exist",
			"users who may create Events in the namespace",
		},
	}
}

// alwaysMissing says what no object records.
func (c *computation) alwaysMissing() []string {
	missing := []string{
		"failures whose Events have expired (the API server keeps Events for one hour by default), and failures of an object that is " +
			"gone",
		"failures of the topology's controller that have ended, such as a webhook that refused a write: only a condition " +
			"of the Cluster shows them, while they last",
	}
	if c.upgrade == nil {
		return missing
	}
	return append(missing,
		"Machines that were replaced: they are gone; a Machine that was created in this upgrade is a replacement or an addition",
		"updates in place before the last one of each Machine: an upgrade with several worker steps has had one for each",
		"who removed a before-upgrade annotation, who paused the Cluster and when, and when other extensions than the gates held a hook",
		"steps at gates that were neither held nor approved, and those that are no longer among the last 200 of a gate",
	)
}
