// Package shares keeps one tenant from using all of something that a process has little of.
package shares
