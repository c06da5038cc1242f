// Package capi reads what Cluster API's objects contain: which group owns a Machine, which versions a
// group plans and runs, and the conditions of objects of any kind. It is the only place that derives
// them.
//
// Everything here is pure and safe for concurrent use. Objects may be metadata only if a function takes
// a metav1.Object.
package capi
