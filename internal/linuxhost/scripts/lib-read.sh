# Reads files without a program for each: a host is looked at often. What is read is in the variable
# found.
found=

# contents FILE [BYTES] sets found to what a file has, or to what it begins with, without the ends of
# lines at its end. It is empty for a file that cannot be read.
contents() {
  local LC_ALL=C
  found=
  [ ! -f "$1" ] || [ ! -r "$1" ] || IFS= read -r -N "${2:-16777216}" found <"$1" || true
  trim
}

# trim removes the ends of lines at the end of found, as $(...) does.
trim() { while [[ "$found" == *$'\n' ]]; do found=${found%$'\n'}; done; }

# value_of KEY FILE sets found to what follows a word at the beginning of a line, such as server:, on
# the first line that has it.
value_of() {
  local word rest
  found=
  [ -r "$2" ] || return 0
  while read -r word rest || [ -n "$word" ]; do
    [ "$word" != "$1" ] || { found=$rest; return 0; }
  done <"$2"
}

# after TEXT FILE sets found to what follows a text on the first line that has it.
after() {
  local line
  found=
  [ -f "$2" ] && [ -r "$2" ] || return 0
  while IFS= read -r line || [ -n "$line" ]; do
    case "$line" in *"$1"*) found=${line##*"$1"}; return 0 ;; esac
  done <"$2"
}
