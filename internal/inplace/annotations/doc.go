// Package annotations admits the upgrades in place that annotations request, of one machine and of the
// machines of a group. It reads the facts, lets package request decide, and records the decision. Package
// engine carries out what is admitted, as it does for Cluster API's hooks.
//
// All state that a restart needs is on the objects. Records are written under the resourceVersion that
// they were decided on, so two processes that look at one object do not both change it.
package annotations
