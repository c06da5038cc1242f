package keyed

import (
	"crypto/sha256"
	"time"
)

// Once remembers what was last said about a key, so that it is said once per change. It is safe for
// concurrent use.
type Once[K comparable] struct {
	lifetime time.Duration
	said     Memory[K, saying]
}

// NewOnce returns a Once that remembers what was said about a key for a lifetime after it was last
// said. It keeps most keys, as a Memory does.
func NewOnce[K comparable](lifetime time.Duration, most int) *Once[K] {
	return &Once[K]{lifetime: lifetime, said: Memory[K, saying]{Most: most}}
}

// saying stands for what was said. Texts may be long, so it has their digest.
type saying struct {
	digest [sha256.Size]byte
	since  time.Time
}

// Changed says something about a key, and reports whether it was not the last thing that was said.
func (o *Once[K]) Changed(key K, text string, now time.Time) bool {
	changed, _ := o.say(key, text, now)
	return changed
}

// Lasts says something about a key, and returns for how long nothing else was said about it. After
// the clock was set back, that counts anew from 0.
func (o *Once[K]) Lasts(key K, text string, now time.Time) time.Duration {
	_, since := o.say(key, text, now)
	return now.Sub(since)
}

// Renew has what was last said about a key count as said at a time.
func (o *Once[K]) Renew(key K, now time.Time) {
	o.said.Edit(key, now, func(last saying, known bool) (saying, time.Duration, bool) {
		last.since = now
		return last, o.lifetime, known
	})
}

// Forget has the next thing that is said about a key count as changed. It reports whether anything
// was remembered.
func (o *Once[K]) Forget(key K) bool { return o.said.Forget(key) }

// ForgetFunc forgets what was said about all keys for which which returns true.
func (o *Once[K]) ForgetFunc(which func(key K) bool) { o.said.ForgetFunc(which) }

func (o *Once[K]) say(key K, text string, now time.Time) (changed bool, since time.Time) {
	digest := sha256.Sum256([]byte(text))
	o.said.Edit(key, now, func(last saying, known bool) (saying, time.Duration, bool) {
		if changed = !known || last.digest != digest; changed {
			last = saying{digest: digest, since: now}
		}
		if now.Before(last.since) {
			last.since = now
		}
		since = last.since
		return last, o.lifetime, true
	})
	return changed, since
}
