@0xa0b7c8d1e2f35469;
# How a node without the CA's key gets its API certificate: the bootstrap capability of trustd, TCP 50001 on
# control-plane nodes. TLS 1.3; the server has a certificate, the caller none.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;

interface Trust {
  certificate @0 (request :Data, token :Text) -> (ca :Data, certificate :Data);
  # Signs a PKCS#10 request (PEM, at most 16 KiB) for a server. What a request may have: trustd/signing-policy.h.
  #   Unauthenticated: the token is wrong.
  #   PermissionDenied: the request has addresses or names that are not proved to be the caller's.
  #   InvalidArgument: the request is not valid, or nobody may have such a certificate.
  #   ResourceExhausted: the caller has as many names or records as one may have. Not to renew a certificate.
  #   Unavailable: a wrong token, as before from this address, or trustd has no CA (yet); the message says more.
}
