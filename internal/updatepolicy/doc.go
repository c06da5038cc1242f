// Package updatepolicy translates UpdatePolicies and Updaters: into the policy that counts for a group of machines, and into
// the updaters for a machine. All of it is pure and safe for concurrent use.
package updatepolicy
