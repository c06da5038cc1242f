# is_older FILE reports whether an upgrade to an earlier minor than the goal's left a file below
# KEEP. That upgrade is over, although it never reported that it is done: a goal that changes in the
# middle of an upgrade stays in its minor, because a host goes through each.
is_older() {
  local kept='' wanted
  IFS=. read -r _ kept _ 2>/dev/null <"$1" || true
  IFS=. read -r _ wanted _ <<<"$TARGET"
  [[ "$kept" =~ ^[0-9]+$ ]] && [ "$kept" -lt "$wanted" ]
}

# is_held reports whether the service was stopped because it did not stay up, and nothing is decided
# yet, or whether its put-back has begun.
is_held() { [ -f "$KEEP/not-started" ] || [ -f "$KEEP/put-back" ]; }

# has_begun reports whether kubeadm has begun this upgrade, possibly with another goal.
has_begun() { [ -f "$KEEP/kubeadm" ] && ! is_older "$KEEP/kubeadm"; }
