// Package readiness sets the conditions by which tools know whether an object of this project can
// be used: Ready, and Stalled, which kstatus reads beside it.
//
// kstatus, which Flux and Helm use, reports Current for an object whose Ready
// is True, Failed if Stalled is True, and InProgress otherwise. Everything here is pure.
package readiness
