package v1alpha1

// Annotations that the manager writes about a chained upgrade. The first two hold JSON.
const (
	// ChainIntentAnnotation on a Cluster announces the control plane's next step: its BeforeControlPlaneUpgrade hook has let
	// it pass. It goes when the step has been taken.
	ChainIntentAnnotation = "windlass.dev/chain-intent"
	// ChainProgressAnnotation on a Cluster is the way of the upgrade under way: from where, to where, and when each step was. It goes
	// with the upgrade.
	ChainProgressAnnotation = "windlass.dev/chain-progress"
	// LastUpgradeAnnotation on a Cluster is the way of the last upgrade that the manager has ended: what ChainProgressAnnotation was, and when
	// the upgrade ended. It holds JSON, for `windlass report`. It is written together with the removal of ChainProgressAnnotation.
	LastUpgradeAnnotation = "windlass.dev/last-upgrade"
	// ChainStepAnnotation on a control plane object is the version to which the manager has raised it last. It is written together
	// with the object's version. Another engine removes it, and so it tells whose step the present version is.
	ChainStepAnnotation = "windlass.dev/chain-step"
	// EngineAnnotation on the infrastructure cluster object names the engine that last applied the Cluster's topology.
	// The manager applies this object in each reconcile, also while an upgrade is held. So does another engine, whose
	// first apply removes the annotation, because both use one field manager.
	EngineAnnotation = "windlass.dev/engine"
)

// EngineManager is the value of EngineAnnotation that windlass manager writes.
const EngineManager = "windlass-manager"
