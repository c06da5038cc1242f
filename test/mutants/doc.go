// Command mutants compares the report of the mutation tool with the list of mutants that may survive.
//
//	go run ./test/mutants REPORTS PACKAGE...
//
// For each PACKAGE, a directory such as internal/gate, REPORTS contains go-gremlins' report
// PACKAGE.json. A mutant survives if no test fails with it: all tests pass (LIVED), no test runs the
// line (NOT COVERED), or the tests do not end (TIMED OUT). The command fails on a survivor that
// test/mutants/survivors.txt does not list, and on an entry there that matches no survivor.
//
// An entry is a line with the file, the function and the condition, and indented lines with the
// reason. It contains no line number, so it stays valid when code moves. If a function contains the
// same condition twice, the entry stands for both.
package main
