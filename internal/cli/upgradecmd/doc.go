// Package upgradecmd is windlass upgrade: it asks for an upgrade in place by an annotation, and follows it.
package upgradecmd
