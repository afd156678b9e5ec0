# The signatures of a release. To be sourced inside the build root; KEY is the file with the private key, in PEM. A node
# takes Ed25519 and ECDSA P-256 (machine.install.imageKey); Ed25519 gives the same signature each time.
openssl pkey -in "$KEY" -noout 2>/dev/null || {
  echo "release: KEY is not a private key without a passphrase in PEM; make one with openssl genpkey -algorithm ed25519" >&2
  exit 1
}
signer=$(openssl pkey -in "$KEY" -noout -text 2>/dev/null | sed -n '1s/ Private-Key:.*//p; s/^NIST CURVE: //p')
case $signer in
  ED25519|ed25519) sign() { openssl pkeyutl -sign -rawin -inkey "$KEY" -in "$1" | base64 -w0; } ;;   # sign FILE: in base64
  *P-256) sign() { openssl dgst -sha256 -sign "$KEY" "$1" | base64 -w0; } ;;
  *) echo "release: KEY is neither Ed25519 nor ECDSA P-256, which nodes verify" >&2; exit 1 ;;
esac
