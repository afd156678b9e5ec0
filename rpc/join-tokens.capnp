@0xd1c0b6f0a4e7392b;
# Join tokens: values of machine.token with which one worker joins once. etcd-supervisor keeps them in etcd, trustd
# spends them.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;

interface JoinTokens {
  # Served by etcd-supervisor for trustd. Answers for a wrong secret say only that it is wrong.
  find @0 (id :Text, digest :Data) -> (token :Found);
  # Reads a token. `digest`: SHA-256 of the whole token. Many calls at once cost etcd few reads. FailedPrecondition when
  # etcd does not run on this node, Unavailable or DeadlineExceeded when etcd does not answer or has no quorum.
  spend @1 (id :Text, digest :Data, fingerprint :Text, usedBy :Text) -> (token :Found);
  # Spends a token for the key with this fingerprint (base64 of SHA-256), in one transaction: of two keys only one gets
  # it. If the answer is `used` with this fingerprint, the token is spent for this key, maybe by an earlier call; any
  # other answer means that nothing was changed. After an error the token may be spent; the next call shows it.
  # FailedPrecondition, Unavailable and DeadlineExceeded as find().

  struct Found {
    state @0 :State;
    hostname @1 :Text;             # host name that it is bound to; empty: any
    fingerprint @2 :Text;          # fingerprint of the key that it was spent for
    since @3 :Int64;               # start of the state, s since 1970; of unused: end of the token
    enum State {
      unknown @0;                  # no token has this id and digest; the other fields are empty
      unused @1;                   # next: used, expired, revoked
      used @2;                     # next: revoked
      expired @3;                  # next: revoked
      revoked @4;
    }
  }
}

struct JoinTokenRecord {
  # A value of etcd, under talos:v1:jointoken:ID: an unpacked message of one segment. Times in s since 1970; 0: never.
  digest @0 :Data;                 # SHA-256 of the whole token
  hostname @1 :Text;
  created @2 :Int64;
  ends @3 :Int64;
  createdBy @4 :Text;
  usedAt @5 :Int64;
  usedBy @6 :Text;
  fingerprint @7 :Text;
  revokedAt @8 :Int64;
  recovered @9 :Bool;              # revoked, because etcd was recovered from a snapshot
}
