@0xa2fe9aa100983415;
# etcd of a control-plane node, by etcd-supervisor. Members, leader and alarms
# are those of the whole cluster; everything else is this node's. Elsewhere every method is FailedPrecondition.
# Progress is in the resource EtcdStatuses/etcd, which a caller can watch while it waits for an answer.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".audit;
using import "stream.capnp".ByteSource;
using import "stream.capnp".ByteSink;

interface Etcd {
  members @0 (local :Bool) -> (members :List(Member), quorum :Bool) $allow("os:reader");
  # Sorted by name; the status of each is requested, for 2 s at most. Without a quorum they are those that the local member
  # knew last. Unavailable when no member can be reached. `local`: the members as the local one knows them, maybe outdated;
  # nobody else is asked, and FailedPrecondition when it does not run.
  status @1 () -> (status :MemberStatus) $allow("os:reader");
  # Of the local member. FailedPrecondition when it does not run, Unavailable when it does not answer.

  bootstrap @2 (recovery :Recovery, without :List(Text), among :List(Text)) -> (done :Bool) $allow("os:admin") $audit;
  # Makes a new cluster with this node as its first member, and answers when that is healthy; done: it was so
  # before. Nothing is ever deleted. The other nodes that the config names, those in `among` (64 names or addresses at
  # most) and those that have asked this one are asked first: FailedPrecondition when one of them has a cluster, or the
  # data directory of this node is not empty; Conflict while another one makes a cluster; Unavailable, with their names, when
  # some cannot be reached. Those in `without` are not asked: the caller vouches that they have no cluster.
  leave @3 (force :Bool) -> () $allow("os:admin") $audit;
  # When it answers, this node is no member any more, its etcd has exited and its data is gone. FailedPrecondition
  # for the only member, and, unless forced, when the others would have no quorum.
  removeMember @4 (member :Text, force :Bool) -> () $allow("os:admin") $audit;
  # By its id in hexadecimal, or its name when only one has that. Touches no node's data. FailedPrecondition as leave().
  forfeitLeadership @5 () -> (leader :Text) $allow("os:admin") $audit;
  # The name of the new leader; empty: the local member was none. FailedPrecondition without another one.

  snapshot @6 (sink :ByteSink) -> (signature :Data) $allow("os:etcd:backup") $audit;
  # Of the local member: the database, followed by its SHA-256. `signature`: the content of the file that
  # `cluster recover` verifies the snapshot with (common/etcd-data/snapshot-signature.h). The errors of status():
  # FailedPrecondition, Unavailable.
  alarms @7 () -> (alarms :List(Alarm)) $allow("os:reader");
  # Unavailable when no member can be reached.
  disarm @8 () -> (alarms :List(Alarm)) $allow("os:admin") $audit;
  # All of them; answers with those that there were. Unavailable when no member can be reached.
  defragment @9 () -> (before :UInt64, after :UInt64) $allow("os:admin") $audit;
  # The local member answers nothing meanwhile. Bytes of its database. The errors of status(): FailedPrecondition,
  # Unavailable.

  bootstrapState @10 (asker :Text) -> (state :BootstrapState) $allow("os:reader");
  # The etcd-supervisors of other nodes ask this before one of them makes a cluster. `asker`: the address of that one.
  # This node stores it before it answers, and asks it in turn before it makes a cluster itself. A worker has no
  # cluster.

  keepSnapshot @11 () -> (upload :SnapshotUpload) $allow("os:admin");
  # For a caller that cannot serve its snapshot at random offsets: stores it for the bootstrap() that will restore it.
  # FailedPrecondition when the data directory is not empty; Conflict while another upload has not ended, which it does
  # by itself when no bytes came for a minute.

  removeInitializedKey @12 () -> (removed :Bool) $allow("os:admin") $audit;
  # Removes the key by which bootkube says that the control plane is self-hosted: then the nodes run theirs as static pods.
  # removed: it was there. FailedPrecondition when the local member does not run, Unavailable without a quorum.

  secretsNotUnder @13 (prefix :Text) -> (total :UInt64, others :UInt64, names :List(Text)) $allow("os:admin");
  # Of the Secrets of Kubernetes, as the members agree on them: how many there are, how many of them are not stored
  # behind this prefix (k8s:enc:secretbox:v1:key2:), and 100 of those, as namespace/name. No contents. FailedPrecondition
  # when the local member does not run, Unavailable without a quorum.

  createJoinToken @14 (hostname :Text, ttlS :UInt64) -> (token :Text, id :Text, ends :Text) $allow("os:admin") $audit;
  # A value of machine.token with which one worker joins once: of any host name, or of this one alone. It can be used
  # for ttlS from now on, 60 to 2592000; `ends` as in JoinToken. The members keep a hash of it, so nobody can read it
  # later. InvalidArgument for another time or a host name that is not valid; ResourceExhausted when there are 5000.
  # FailedPrecondition when the local member does not run, Unavailable or DeadlineExceeded without a quorum.
  joinTokens @15 () -> (tokens :List(JoinToken)) $allow("os:reader");
  # All of the cluster, the oldest first. Of those that nobody has used, 30 days after their end none are left; of those
  # that were revoked, 30 days after that. FailedPrecondition when the local member does not run, Unavailable or
  # DeadlineExceeded without a quorum.
  revokeJoinToken @16 (id :Text) -> () $allow("os:admin") $audit;
  # Nobody joins with it any more. A worker that has joined with it keeps its certificate and renews that. NotFound
  # without such a token. One that is revoked already stays as it is. FailedPrecondition when the local member does not
  # run, Unavailable or DeadlineExceeded without a quorum.

  interface SnapshotUpload {
    # Nothing is left of it when it is dropped before done().
    write @0 (bytes :Data) -> stream $allow("os:admin");
    done @1 () -> (size :UInt64) $allow("os:admin") $audit;
    # Stored when it answers, in place of an earlier one, until the next bootstrap(), whatever its outcome, for an hour,
    # or until etcd-supervisor exits. The bytes have not been verified yet. write() ends the upload with InvalidArgument
    # beyond 8 GiB, and with ResourceExhausted when the disk has no room but its reserve.
  }
  struct Member {
    id @0 :UInt64;
    name @1 :Text;               # empty: it has not started yet
    peerUrls @2 :List(Text);
    clientUrls @3 :List(Text);
    learner @4 :Bool;
    leader @5 :Bool;
    local @6 :Bool;              # on this node
    problem @7 :Text;            # why it did not answer; empty: it did
    version @8 :Text;            # of those that answered
    dbSize @9 :UInt64;           # bytes
  }
  struct MemberStatus {
    id @0 :UInt64;
    clusterId @1 :UInt64;
    leader @2 :UInt64;           # id; 0: none
    version @3 :Text;
    dbSize @4 :UInt64;           # bytes
    dbSizeInUse @5 :UInt64;
    raftIndex @6 :UInt64;
    raftTerm @7 :UInt64;
    raftAppliedIndex @8 :UInt64;
    learner @9 :Bool;
    errors @10 :List(Text);
    revision @11 :Int64;         # the newest of its data
  }
  struct JoinToken {
    id @0 :Text;
    hostname @1 :Text;           # that it is bound to; empty: any
    state @2 :State;
    created @3 :Text;            # RFC 3339, as the others
    ends @4 :Text;
    createdBy @5 :Text;          # the client
    usedAt @6 :Text;             # empty: never
    usedBy @7 :Text;             # names and address of the worker
    fingerprint @8 :Text;        # of its key: base64 of SHA-256
    revokedAt @9 :Text;          # empty: never
    recovered @10 :Bool;         # revoked, because etcd was recovered from a snapshot
    enum State { unused @0; used @1; expired @2; revoked @3; }
  }
  struct Alarm {
    member @0 :UInt64;
    name @1 :Text;               # of the member
    alarm @2 :Text;              # NOSPACE, CORRUPT
  }
  struct Recovery {
    bytes @0 :ByteSource;        # none: nothing is to be recovered
    size @1 :UInt64;
    skipHashCheck @2 :Bool;      # a copy of the database without its SHA-256
    kept @3 :Bool;               # the one that keepSnapshot() has taken; without `bytes`
  }
  struct BootstrapState {
    name @0 :Text;               # of the node
    state @1 :State;
    clusterId @2 :UInt64;        # of a member
    since @3 :Int64;             # of a claim: ns since 1970, for messages
    enum State {
      none @0;                   # no cluster, and nobody requests one
      claiming @1;               # is about to make one, and asks the others
      bootstrapping @2;          # has asked them and makes it
      member @3;                 # has data of a cluster
    }
  }
}
