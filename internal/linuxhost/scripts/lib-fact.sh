source lib-read.sh
# fact KEY VALUE prints one fact, for parseValues.
fact() { printf '%s ' "$1"; encode "$2"; }
# fact_of KEY FILE [BYTES] prints what a file has, or how it begins.
fact_of() { contents "${@:2}"; fact "$1" "$found"; }
# encode VALUE prints a line for decodeValue: plain values behind =, all others in base64. Most values
# are plain, and then nothing is started for them.
encode() {
  case "$1" in
    *[!A-Za-z0-9.:/_+\ ,=@\"\(\)-]*) base64 -w 0 <<<"$1" && echo ;;
    *) printf '=%s\n' "$1" ;;
  esac
}
# certificates FILE prints the certificates in a file, and no key.
certificates() {
  sed -n '/^-----BEGIN CERTIFICATE-----/,/^-----END CERTIFICATE-----/p' "$1" 2>/dev/null
}
