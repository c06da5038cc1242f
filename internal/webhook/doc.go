// Package webhook serves the admission webhook that guards Machines: where an UpdatePolicy forbids to replace machines, it refuses
// requests that would.
package webhook
