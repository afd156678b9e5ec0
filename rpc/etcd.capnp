@0xa2fe9aa100983415;
# etcd of a control-plane node, managed by etcd-supervisor. Members, leader and alarms are those of the whole cluster;
# everything else is this node's. On other nodes every method is FailedPrecondition. Progress is in the resource
# EtcdStatuses/etcd, which a caller can watch while it waits for an answer.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".audit;
using import "stream.capnp".ByteSource;
using import "stream.capnp".ByteSink;

interface Etcd {
  members @0 (local :Bool) -> (members :List(Member), quorum :Bool) $allow("os:reader");
  # Lists the members, sorted by name, after a request to each for its status, for 2 s at most. Without a quorum, the
  # list is what the local member knew last. Unavailable when no member can be reached. `local`: lists the members as
  # the local member knows them, maybe outdated, without a request to others; FailedPrecondition when the local member
  # does not run.
  status @1 () -> (status :MemberStatus) $allow("os:reader");
  # Returns the status of the local member. FailedPrecondition when it does not run, Unavailable when it does not
  # answer.

  bootstrap @2 (recovery :Recovery, without :List(Text), among :List(Text)) -> (done :Bool) $allow("os:admin") $audit;
  # Makes a new cluster with this node as its first member, and answers when the cluster is healthy; `done`: the node
  # was a member, or was making a cluster, before. Deletes nothing. First calls the other nodes that the config names,
  # the nodes in `among` (64 names or addresses at most) and the nodes that have called bootstrapState() here:
  # FailedPrecondition when one of them has a cluster, or the data directory of this node is not empty; Conflict while
  # another node makes a cluster; Unavailable, with their names, when some cannot be reached. Nodes in `without` are not
  # called: the caller guarantees that they have no cluster. InvalidArgument when `among` has more nodes, or the
  # snapshot of `recovery` cannot be restored. DeadlineExceeded when the cluster is made, but its member is not healthy
  # within ten minutes.
  leave @3 (force :Bool) -> () $allow("os:admin") $audit;
  # Removes this node from the cluster: when this answers, the node is no member any more, its etcd has exited and its
  # data is deleted. FailedPrecondition for the only member, and, unless forced, when the others would have no quorum.
  removeMember @4 (member :Text, force :Bool) -> () $allow("os:admin") $audit;
  # Removes the member with this id in hexadecimal, or this name if only one member has it. Touches no node's data.
  # FailedPrecondition as leave().
  forfeitLeadership @5 () -> (leader :Text) $allow("os:admin") $audit;
  # Returns the name of the new leader; empty if the local member was not the leader. FailedPrecondition if no other
  # member can lead.

  snapshot @6 (sink :ByteSink) -> (signature :Data) $allow("os:etcd:backup") $audit;
  # Sends the database of the local member, followed by its SHA-256. `signature`: the content of the file that
  # `cluster recover` verifies the snapshot with (common/etcd-data/snapshot-signature.h). The errors of status():
  # FailedPrecondition, Unavailable.
  alarms @7 () -> (alarms :List(Alarm)) $allow("os:reader");
  # Unavailable when no member can be reached.
  disarm @8 () -> (alarms :List(Alarm)) $allow("os:admin") $audit;
  # Clears all alarms, and returns the alarms that were set. Unavailable when no member can be reached.
  defragment @9 () -> (before :UInt64, after :UInt64) $allow("os:admin") $audit;
  # Defragments the local member, which answers nothing meanwhile. `before`, `after`: bytes of its database. The errors
  # of status(): FailedPrecondition, Unavailable.

  bootstrapState @10 (asker :Text) -> (state :BootstrapState) $allow("os:reader");
  # Called by the etcd-supervisors of other nodes before one of them makes a cluster. `asker`: the address of the
  # calling node. This node stores the address before it answers, and calls that node in turn before it makes a cluster
  # itself. A worker has no cluster.

  keepSnapshot @11 () -> (upload :SnapshotUpload) $allow("os:admin");
  # Stores the snapshot of a caller that cannot serve it at random offsets, for the bootstrap() that will restore it.
  # FailedPrecondition when the data directory is not empty; Conflict while another upload has not ended. An upload ends
  # by itself when no bytes came for a minute.

  removeInitializedKey @12 () -> (removed :Bool) $allow("os:admin") $audit;
  # Removes the key by which bootkube says that the control plane is self-hosted: then the nodes run theirs as static
  # pods. `removed`: the key existed. FailedPrecondition when the local member does not run, Unavailable without a
  # quorum.

  secretsNotUnder @13 (prefix :Text) -> (total :UInt64, others :UInt64, names :List(Text)) $allow("os:admin");
  # Counts the Secrets of Kubernetes, as the members agree on them. `total`: all Secrets; `others`: Secrets that are not
  # stored under this prefix (k8s:enc:secretbox:v1:key2:); `names`: 100 of the latter, as namespace/name. Returns no
  # contents. FailedPrecondition when the local member does not run, Unavailable without a quorum.

  createJoinToken @14 (hostname :Text, ttlS :UInt64) -> (token :Text, id :Text, ends :Text) $allow("os:admin") $audit;
  # Creates a value of machine.token with which one worker joins once: of any host name, or of `hostname` alone. It can
  # be used for ttlS from now on, 60 to 2592000; `ends` as in JoinToken. The members store a hash of it, so that it
  # cannot be read later. InvalidArgument for another time or a host name that is not valid; ResourceExhausted when
  # there are 5000. FailedPrecondition when the local member does not run, Unavailable or DeadlineExceeded without a
  # quorum.
  joinTokens @15 () -> (tokens :List(JoinToken)) $allow("os:reader");
  # Lists all tokens of the cluster, the oldest first. Unused tokens are removed 30 days after their end, revoked ones
  # 30 days after their revocation. FailedPrecondition when the local member does not run, Unavailable or
  # DeadlineExceeded without a quorum.
  revokeJoinToken @16 (id :Text) -> () $allow("os:admin") $audit;
  # Revokes a token, so that no node joins with it any more. A worker that has joined with it keeps its certificate and
  # renews it. Does nothing for a token that is already revoked. NotFound for an unknown token. FailedPrecondition when
  # the local member does not run, Unavailable or DeadlineExceeded without a quorum.

  interface SnapshotUpload {
    # An upload that is dropped before done() leaves nothing.
    write @0 (bytes :Data) -> stream $allow("os:admin");
    done @1 () -> (size :UInt64) $allow("os:admin") $audit;
    # Answers when the bytes are stored, in place of an earlier upload. They stay until the next bootstrap(), whatever
    # its outcome, for an hour, or until etcd-supervisor exits. The bytes have not been verified yet. write() ends the
    # upload with InvalidArgument beyond 8 GiB, and with ResourceExhausted when the disk has no room but its reserve.
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
    version @8 :Text;            # of members that answered
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
    revision @11 :Int64;         # newest revision of its data
  }
  struct JoinToken {
    id @0 :Text;
    hostname @1 :Text;           # host name that it is bound to; empty: any
    state @2 :State;
    created @3 :Text;            # RFC 3339, as the others
    ends @4 :Text;
    createdBy @5 :Text;          # name of the client
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
    bytes @0 :ByteSource;        # unset: nothing to recover
    size @1 :UInt64;
    skipHashCheck @2 :Bool;      # the snapshot is a copy of the database without its SHA-256
    kept @3 :Bool;               # use the snapshot that keepSnapshot() has stored; without `bytes`
  }
  struct BootstrapState {
    name @0 :Text;               # of the node
    state @1 :State;
    clusterId @2 :UInt64;        # of a member
    since @3 :Int64;             # of a claim: ns since 1970, for messages
    enum State {
      none @0;                   # no cluster, and no request for one
      claiming @1;               # is about to make a cluster, and calls the others
      bootstrapping @2;          # has called the others, and makes the cluster
      member @3;                 # has data of a cluster
    }
  }
}
