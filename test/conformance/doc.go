// Command conformance keeps the list of requirements: every demand of the documents that the project
// was created from, with the code that meets it, the test that fails without it, the scenario that
// shows it live, and a mutant, a change of the code that removes it.
//
//	go run ./test/conformance page     writes docs/conformance.md
//	go run ./test/conformance mutants  applies each mutant, and fails where its test passes
//
// All mutants take about 40 minutes. Arguments select requirements and documents by their ids.
package main
