# fact KEY VALUE prints one fact, for parseValues: plain values behind =, all others in base64. Most
# values are plain, and then nothing is started for them.
fact() {
  case "$2" in
    *[!A-Za-z0-9.:/_+-]*) printf '%s %s\n' "$1" "$(printf %s "$2" | base64 | tr -d '\n')" ;;
    *) printf '%s =%s\n' "$1" "$2" ;;
  esac
}
# certificates FILE prints the certificates in a file, and no key.
certificates() {
  sed -n '/^-----BEGIN CERTIFICATE-----/,/^-----END CERTIFICATE-----/p' "$1" 2>/dev/null
}
