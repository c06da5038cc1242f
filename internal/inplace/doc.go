// Package inplace decides and carries out the update of one machine in place.
//
// [Decide] returns what to record and what to do next, from facts about the Machine, its node and its
// policy. [Execute] does it against [Effects], which may fail or be cut off at any point: it records
// first and acts then, so a process that reads the facts again reaches the same end. [InFlight] keeps
// machines from beginning beyond a policy's maxInFlight while the cache lags behind this process.
//
// Package cover decides which updaters cover a difference, package request when an annotation begins an
// update, and package engine connects all of them to Cluster API's objects.
package inplace
