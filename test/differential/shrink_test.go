package differential

import "slices"

// shrink makes a failing input as small as it can while it keeps failing.
func shrink(in input, fails func(input) bool) input {
	for {
		smaller, found := in, false
		for _, candidate := range simplified(in) {
			if fails(candidate) {
				smaller, found = candidate, true
				break
			}
		}
		if !found {
			return in
		}
		in = smaller
	}
}

// simplified lists every input that is one step simpler.
func simplified(in input) []input {
	var out []input
	change := func(do func(*input)) {
		c := in.clone()
		do(&c)
		out = append(out, c)
	}
	for i := range in.groups {
		change(func(c *input) { c.groups = slices.Delete(c.groups, i, i+1) })
	}
	for i := range in.list {
		change(func(c *input) { c.list = slices.Delete(c.list, i, i+1) })
	}
	for i := range in.workers {
		change(func(c *input) { c.workers = slices.Delete(c.workers, i, i+1) })
	}
	for i, gr := range in.groups {
		if gr.limit > 0 {
			change(func(c *input) { c.groups[i].limit = 0 })
		}
		if gr.pool {
			change(func(c *input) { c.groups[i].pool = false })
		}
	}
	// A version that stands in several places is simplified everywhere at once: alone it would make another input.
	for _, k := range distinct(in) {
		for _, to := range simpler(k) {
			change(func(c *input) { replace(c, k, to) })
		}
	}
	return out
}

func simpler(k kver) []kver {
	var out []kver
	if k.bare {
		out = append(out, k.canon())
	}
	if k.build != "" {
		s := k
		s.build = ""
		out = append(out, s)
	}
	if k.pre != "" {
		s := k
		s.pre = ""
		out = append(out, s)
	}
	if k.patch > 0 {
		s := k
		s.patch--
		out = append(out, s)
	}
	return out
}

func distinct(in input) []kver {
	all := append([]kver{in.controlPlane, in.target}, in.list...)
	all = append(all, in.workers...)
	for _, gr := range in.groups {
		all = append(all, gr.at)
	}
	var out []kver
	for _, k := range all {
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

func replace(in *input, from, to kver) {
	swap := func(k *kver) {
		if *k == from {
			*k = to
		}
	}
	swap(&in.controlPlane)
	swap(&in.target)
	for i := range in.groups {
		swap(&in.groups[i].at)
	}
	for i := range in.list {
		swap(&in.list[i])
	}
	for i := range in.workers {
		swap(&in.workers[i])
	}
}
