// Command long runs the batteries that are too long for .ci/run, and records their results.
//
//	go run ./test/long -budget 80m [NAME...]
//
// It runs the batteries that ran longest ago until the budget ends. Batteries that never ran come
// first. A battery that will take longer than the rest of the budget, by its last run, is left out.
// When the budget ends, or the command, the process group of the running battery is killed: its result
// is "stopped", which is neither a pass nor a failure. With NAMEs, only these batteries run.
//
// test/long/record.txt has one line per battery: the date, commit, result and seconds of its last
// run, and the date and commit of its last pass. The command writes the file after each battery, so
// that a run that is killed keeps what it has. It refuses a work tree with other changes, because a
// recorded commit must have what was tested.
//
// The exit status is 1 if a battery failed, if one needs more than the whole budget, or if a signal
// ended the command.
package main
