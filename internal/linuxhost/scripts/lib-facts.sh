# Prints the facts of any host. It changes nothing.
set -u
# What bash reads is bytes. What it prints itself is English.
LC_ALL=C
source lib-fact.sh
source lib-room.sh
source lib-kept.sh

# Jobs are started under this lock: a job that is just being started is neither missing nor gone.
# The lock is waited for not long, and released as soon as the job is known.
if [ -e "$STATE/lock" ]; then exec 9<"$STATE/lock"; flock -s -w 2 9; fi
# sizes FILE... sets total_kb to the size of those files that are there.
sizes() {
  local size file files=()
  total_kb=0
  for file; do [ ! -f "$file" ] || files+=("$file"); done
  [ ${#files[@]} -gt 0 ] || return 0
  while read -r size; do
    total_kb=$((total_kb + size / 1024))
  done < <(stat -Lc %s "${files[@]}")
}
printf -v now '%(%s)T' -1
fact time "$now"
# The boot by the same clock, which may have been set since.
up=
[ ! -r /proc/uptime ] || read -r up _ </proc/uptime
[ -z "$up" ] || fact boot $((now - ${up%.*}))
# shellcheck disable=SC2034 # facts-kubeadm prints the kernel.
read -r kernel machine < <(uname -rm)
fact arch "$machine"
# A file is created only where the folder looks read-only: then the shell's error tells why.
probe="$BIN/.windlass-probe-$$"
if [ -w "$BIN" ]; then
  fact writable yes
elif why=$( { : >"$probe"; } 2>&1 ); then
  fact writable yes
  rm -f "$probe"
else
  fact writable no
  fact writable-why "${why##*: }"
fi
job="$STATE/job"
if [ -f "$job/id" ]; then
  fact_of job "$job/id"
  fact_of job-started "$job/started"
  # What a job leaves is read after its state. Otherwise one that ends meanwhile would be known to
  # have failed, and what it says and marks about that would not.
  if ! flock -n "$STATE/job.lock" true; then fact job-state running
  elif [ -s "$job/exit" ]; then
    fact job-state ended
    fact_of job-exit "$job/exit"
    fact_of job-ended "$job/ended"
  else fact job-state vanished; fi
  # Where the output is cut, its first line is not whole: it may be the rest of a secret without
  # its name.
  output=$(cat "$job/out" "$job/out.last" 2>/dev/null | tr -d '\0' | tail -c 4097; echo .)
  output=${output%.}
  if [ ${#output} -gt 4096 ]; then
    case "${output:1}" in *$'\n'*) output=${output#?*$'\n'} ;; *) output= ;; esac
  fi
  fact job-output "$output"
fi
exec 9>&-
[ -f "$OP/drained" ] && fact drained yes
[ -f "$KEEP/cordoned" ] && ! is_older "$KEEP/cordoned" && fact cordoned yes
[ -f "$KEEP/node/digest" ] && fact_of kept "$KEEP/node/version"
# A service that runs since then is not stopped for it.
is_held && ! is_in_use && fact not-started yes
[ -f "$OP/done" ] && [ ! -d "$STATE/binaries" ] && fact cleaned yes
