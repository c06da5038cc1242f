// Package cover decides which updaters cover which part of a difference between what a machine is and what it should be.
//
// A Coverage starts from current and desired objects. Updaters are asked one after another, each with what the earlier ones
// would leave behind, and answer with patches. A patch is that updater's error, and covers nothing, if it changes anything
// but the compared spec, or anything in it away from desired. A field must become just what is desired; a list may come
// nearer: elements that desired lacks may go, and elements that it has more of may come, so that several updaters can share
// a list. What nobody covers decides, by the user's policy, between replacing the machine and leaving it as it is.
//
// Everything here is pure and safe for concurrent use: same input, same bytes.
package cover
