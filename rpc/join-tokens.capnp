@0xd1c0b6f0a4e7392b;
# Join tokens: values of machine.token with which one worker joins once. etcd-supervisor keeps them in etcd, trustd
# spends them.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;

interface JoinTokens {
  # By etcd-supervisor, for trustd. No answer says more about a secret than that it is wrong.
  find @0 (id :Text, digest :Data) -> (token :Found);
  # Reads it. `digest`: SHA-256 of the whole token. Many calls at once cost etcd few reads. FailedPrecondition when etcd
  # does not run on this node, Unavailable or DeadlineExceeded when it does not answer or has no quorum.
  spend @1 (id :Text, digest :Data, fingerprint :Text, usedBy :Text) -> (token :Found);
  # For the key with this fingerprint (base64 of SHA-256), in one transaction: of two keys one gets it. When it answers
  # `used` with this fingerprint, that is done, maybe by an earlier call; any other answer: nothing was changed. After
  # an error it may have been done: the next call says. FailedPrecondition, Unavailable and DeadlineExceeded as find().

  struct Found {
    state @0 :State;
    hostname @1 :Text;             # that it is bound to; empty: any
    fingerprint @2 :Text;          # of the key that it was spent for
    since @3 :Int64;               # of the state, s since 1970; of unused: the end
    enum State {
      unknown @0;                  # there is none with this id and digest; the other fields are empty
      unused @1;
      used @2;
      expired @3;
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
