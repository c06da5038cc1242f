package v1alpha1

// Annotations that the manager writes about a chained upgrade. The first two hold JSON.
const (
	// ChainIntentAnnotation on a Cluster announces the control plane's next step: its BeforeControlPlaneUpgrade hook has let
	// it pass. It goes when the step has been taken.
	ChainIntentAnnotation = "windlass.dev/chain-intent"
	// ChainProgressAnnotation on a Cluster is the way of the upgrade under way: from where, to where, and when each step was. It goes
	// with the upgrade.
	ChainProgressAnnotation = "windlass.dev/chain-progress"
	// ChainStepAnnotation on a control plane object is the version to which the manager has raised it last. It is written together
	// with the object's version. Another engine removes it, and so it tells whose step the present version is.
	ChainStepAnnotation = "windlass.dev/chain-step"
)
