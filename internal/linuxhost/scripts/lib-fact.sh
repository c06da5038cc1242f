# fact KEY VALUE prints one fact, for parseValues.
fact() { printf '%s %s\n' "$1" "$(printf %s "$2" | base64 | tr -d '\n')"; }
