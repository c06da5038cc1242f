// Package handover is the updater that is given machines and marks them updated itself. The protocol is in
// api/updates/v1alpha1.
package handover
