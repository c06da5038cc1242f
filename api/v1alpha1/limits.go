package v1alpha1

// The bounds of label selectors in the specs of all kinds. The CRDs have the same.
const (
	// MaxSelectorTerms bounds the entries of matchLabels and matchExpressions of a selector together.
	MaxSelectorTerms = 64
	// MaxSelectorValues bounds the values of one entry of matchExpressions.
	MaxSelectorValues = 64
	// MaxSelectorValuesInAll bounds the values of all entries of matchExpressions of a selector.
	MaxSelectorValuesInAll = 256
	// MaxLabelKeyLength bounds the key of a label, in characters: a prefix, a slash and a name.
	MaxLabelKeyLength = 253 + 1 + 63
	// MaxLabelValueLength bounds the value of a label, in characters.
	MaxLabelValueLength = 63
	// MaxTargetEntries bounds what the targets of an UpdatePolicy name together: names of
	// MachineDeployments, and the entries and values of selectors.
	MaxTargetEntries = 1024
)

// MaxConditionMessageLength bounds the message of a condition of all kinds, in characters. The CRDs
// have the same. It is less than metav1.Condition allows.
const MaxConditionMessageLength = 8192
