// Package condition sets conditions. It is the only place that does, so that each message has at most
// [MaxBytes]: Cluster API's types accept 10,240 characters in the conditions of their older form and
// 32,768 in the newer one, and refuse the whole status for one that is longer.
//
// [SetReady] sets the conditions by which tools know whether an object of this project can be used:
// Ready, and Stalled, which kstatus reads beside it. kstatus, which Flux and Helm use, reports Current
// for an object whose Ready is True, Failed if Stalled is True, and InProgress otherwise.
//
// The functions change what they are given, and are not safe for concurrent use on one object.
package condition
