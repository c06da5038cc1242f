// Package management reads a management cluster for commands: it is the one reader of Clusters, their groups
// and their classes.
package management
