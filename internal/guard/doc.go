// Package guard decides whether a Machine may be created or deleted in a group whose UpdatePolicy keeps its machines.
//
// Stock Cluster API replaces machines in ways that no hook is asked about. All of them come down to two requests: create a
// Machine beyond the replicas that are desired, or delete one of those that are. Both are refused, one by one, whatever
// Cluster API's reason: a surge before the hook is asked, a preflight check that fails for one Machine only, rolloutBefore and
// rolloutAfter, a dry run that is rejected, a template that is missing. What a user asks for by spec.replicas, by an annotation
// on the Machine or by deleting the group, and remediation, does not look like that and stays possible.
package guard
