@0xa0b7c8d1e2f35469;
# How a machine without the authority's key gets the certificate of its API: the bootstrap capability of
# trustd, TCP 50001 on control-plane machines. TLS 1.3; the server shows a certificate, the caller none.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;

interface Trust {
  certificate @0 (request :Data, token :Text) -> (ca :Data, certificate :Data);
  # Signs a PKCS#10 request (PEM, at most 16 KiB) for a server. What it may ask for: trustd/signing-policy.h.
  # Unauthenticated: the token is wrong. PermissionDenied: it asks for what is not shown to be the caller's own.
  # InvalidArgument: it cannot be read, or nobody may ask for that. Unavailable: this address failed before and
  # has to wait, or trustd has no authority (yet); the text says how long or why.
}
