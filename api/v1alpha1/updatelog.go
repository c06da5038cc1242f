package v1alpha1

// The log of a Machine's update on its host is a ConfigMap in the Machine's namespace, which the Machine owns.
const (
	// UpdateLogLabel is on every such ConfigMap; its value is "true".
	UpdateLogLabel = "windlass.dev/update-log"
	// UpdateLogSuffix ends its name, after the Machine's.
	UpdateLogSuffix = "-update-log"
	// UpdateLogKey is the key of the log in its data.
	UpdateLogKey = "log"
)
