// Package isolationtest tells tests whether planes can be isolated on this system, without the code that isolates them: a test that
// asked that code would be skipped when it is broken.
package isolationtest
