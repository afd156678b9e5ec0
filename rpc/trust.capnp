@0xa0b7c8d1e2f35469;
# How a node without the CA's key gets its API certificate: the bootstrap capability of trustd, TCP 50001 on
# control-plane nodes. TLS 1.3; the server has a certificate, the caller none.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;

interface Trust {
  certificate @0 (request :Data, token :Text, proofs :List(Data), held :Held) -> (ca :Data, certificate :Data);
  # Signs a PKCS#10 request (PEM, at most 16 KiB) for a server. trustd/signing-policy.h has the rules for requests.
  # `proofs`: of prove(), at most 16; those that are not valid (any more) do not count.
  # `held`: renews a certificate of this CA without the right token, for no other names and addresses.
  #   Unauthenticated: the token is wrong, or a join token that is used, expired or revoked.
  #   PermissionDenied: the request has addresses or names that are not proved to be the caller's, or that the
  #     join token is not for.
  #   FailedPrecondition: the request has names, and trustd does not know the other control-plane nodes yet, so it
  #     cannot say which names are theirs. The same request without names is signed.
  #   InvalidArgument: the request is not valid, or no caller may have such a certificate.
  #   ResourceExhausted: the caller has as many names or records as one caller may have. Not for a renewal.
  #   Unavailable: a wrong token, too soon after other failed requests from this address; a join token that cannot be
  #     verified now; or trustd has no CA (yet). The message says which.

  prove @1 (token :Text, held :Held) -> (proof :Data, address :Text, servers :List(Text));
  # For a node with several addresses: returns a proof that the node has called from `address`, as trustd sees it, for a
  # request to the same trustd within a minute, from any address. `servers`: further addresses of this trustd.
  # Unauthenticated and Unavailable as certificate().

  struct Held {
    # A valid certificate of the caller (PEM, at most 8 KiB), and the signature by its key over the call:
    # common/tls/held-message.h. Empty: none.
    certificate @0 :Data;
    signature @1 :Data;
  }
}
