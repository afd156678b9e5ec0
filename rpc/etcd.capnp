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
  # Lists the members, sorted by name, after a request to each for its status, for 2 s at most.
  # Without a quorum, the list is what the local member knew last. `local`: lists the members as the
  # local member knows them, maybe outdated, without a request to others.
  # Errors: Unavailable when no member can be reached. With `local`, FailedPrecondition when the
  # local member does not run, Unavailable when it does not answer.

  status @1 () -> (status :MemberStatus) $allow("os:reader");
  # Returns the status of the local member.
  # Errors: FailedPrecondition when it does not run. Unavailable when it does not answer.

  bootstrap @2 (recovery :Recovery, without :List(Text), among :List(Text)) -> (done :Bool) $allow("os:admin") $audit;
  # Makes a new cluster with this node as its first member, and answers when the cluster is healthy;
  # `done`: the node was a member, or was making a cluster, before. Deletes nothing. `recovery`: the
  # cluster begins with the data of a snapshot.
  # First calls the other nodes that the config names, the nodes in `among` (64 names or addresses
  # at most) and the nodes that have called bootstrapState() here. Nodes in `without` are not
  # called: the caller guarantees that they have no cluster.
  # Errors: FailedPrecondition when another node has a cluster or this node's name, the data
  # directory of this node is not empty or its member not healthy, `recovery` came too late, or no
  # snapshot is kept. Conflict while another node makes a cluster. Unavailable, with their names,
  # when some nodes cannot be reached. InvalidArgument for too many nodes in `among`, for a node in
  # `without` that would not be called, and for a snapshot that is not valid or cannot be restored.
  # ResourceExhausted when the disk has no room for the snapshot. DeadlineExceeded when the node
  # still tries to join a cluster after a minute, or when the cluster is made but not healthy after
  # 10 minutes; it may become so later.
  # Cancel: until all nodes have answered, ends the request and changes nothing. From then on the
  # node makes the cluster without the caller.
  # Repeat: safe; without `recovery` a call waits for the cluster that an earlier call makes, and a
  # member that is healthy answers at once.

  leave @3 (force :Bool) -> () $allow("os:admin") $audit;
  # Removes this node from the cluster: when this answers, the node is no member any more, its etcd
  # has exited and its data is deleted.
  # Errors: FailedPrecondition for the only member, for a node that is no member or whose data is
  # damaged, while another change of members runs here, and, unless forced, when the others would
  # have no quorum. Unavailable when no member can be reached. DeadlineExceeded when another node
  # changes the members for too long, or when etcd has not exited within 2 minutes; the node is no
  # member then, and the data is deleted later.
  # Cancel: before the removal was recorded, changes nothing. After that, etcd-supervisor completes
  # it, or finds that the node has stayed a member.
  # Repeat: safe; a node that has left answers when its data is deleted.

  removeMember @4 (member :Text, force :Bool) -> () $allow("os:admin") $audit;
  # Removes the member with this id in hexadecimal, or this name if only one member has it. Touches
  # no node's data.
  # Errors: NotFound for an unknown member, also for a repeated call. InvalidArgument for a name
  # that several members have. FailedPrecondition for this node itself, and as leave(). Unavailable
  # when no member can be reached. DeadlineExceeded when another node changes the members for too
  # long.

  forfeitLeadership @5 () -> (leader :Text) $allow("os:admin") $audit;
  # Makes another member the leader and returns its name; empty if the local member was not the
  # leader.
  # Errors: FailedPrecondition when the local member does not run, or no other member can lead.
  # Unavailable when the local member does not answer.
  # Repeat: safe; the second call changes nothing.

  snapshot @6 (sink :ByteSink) -> (signature :Data) $allow("os:etcd:backup") $audit;
  # Sends the database of the local member, followed by its SHA-256. `signature`: the content of the
  # file that `cluster recover` verifies the snapshot with (common/etcd-data/snapshot-signature.h).
  # Errors: those of status(): FailedPrecondition, Unavailable.
  # Cancel: ends the snapshot; what was sent is incomplete.

  alarms @7 () -> (alarms :List(Alarm)) $allow("os:reader");
  # Returns the alarms of all members.
  # Errors: Unavailable when no member can be reached.

  disarm @8 () -> (alarms :List(Alarm)) $allow("os:admin") $audit;
  # Clears all alarms, and returns the alarms that were set. A cause that still exists sets its
  # alarm again.
  # Errors: Unavailable when no member can be reached.
  # Repeat: safe; the second call returns no alarms.

  defragment @9 () -> (before :UInt64, after :UInt64) $allow("os:admin") $audit;
  # Defragments the local member, which answers nothing meanwhile. `before`, `after`: bytes of its
  # database.
  # Errors: those of status(): FailedPrecondition, Unavailable.

  bootstrapState @10 (asker :Text) -> (state :BootstrapState) $allow("os:reader");
  # Returns whether this node has a cluster or makes one. Called by the etcd-supervisors of other
  # nodes before one of them makes a cluster. `asker`: the address of the calling node. This node
  # stores the address before it answers, and calls that node in turn before it makes a cluster
  # itself. A worker has no cluster.
  # Errors: Unavailable while etcd-supervisor starts, and for one more address than a node can
  # store.
  # Repeat: safe.

  keepSnapshot @11 () -> (upload :SnapshotUpload) $allow("os:admin");
  # Stores the snapshot of a caller that cannot serve it at random offsets, for the bootstrap() that
  # will restore it. An upload ends by itself when no bytes came for a minute.
  # Errors: FailedPrecondition when the data directory is not empty. Conflict while another upload
  # has not ended.

  removeInitializedKey @12 () -> (removed :Bool) $allow("os:admin") $audit;
  # Removes the key by which bootkube says that the control plane is self-hosted: then the nodes run
  # theirs as static pods. `removed`: the key existed.
  # Errors: FailedPrecondition when the local member does not run. Unavailable without a quorum.
  # Repeat: safe; `removed` is false then.

  secretsNotUnder @13 (prefix :Text) -> (total :UInt64, others :UInt64, names :List(Text)) $allow("os:admin");
  # Counts the Secrets of Kubernetes, as the members agree on them. `total`: all Secrets; `others`:
  # Secrets that are not stored under this prefix (k8s:enc:secretbox:v1:key2:); `names`: 100 of the
  # latter, as namespace/name. Returns no contents.
  # Errors: FailedPrecondition when the local member does not run. Unavailable without a quorum.

  createJoinToken @14 (hostname :Text, ttlS :UInt64) -> (token :Text, id :Text, ends :Text) $allow("os:admin") $audit;
  # Creates a value of machine.token with which one worker joins once: of any host name, or of
  # `hostname` alone. It can be used for ttlS from now on, 60 to 2592000; `ends` is that of
  # JoinToken. The members store a hash of it, so that it cannot be read later.
  # Errors: InvalidArgument for another time or a host name that is not valid. ResourceExhausted
  # when the cluster has 5000 tokens. FailedPrecondition when the local member does not run, or a
  # recovery from a snapshot is not complete. Unavailable or DeadlineExceeded without a quorum.
  # Repeat: each call creates another token. After an error a token may exist whose value is lost;
  # joinTokens() lists it.

  joinTokens @15 () -> (tokens :List(JoinToken)) $allow("os:reader");
  # Lists all tokens of the cluster, the oldest first. Unused tokens are removed 30 days after their
  # end, revoked ones 30 days after their revocation.
  # Errors: FailedPrecondition and the others as for createJoinToken(): Unavailable,
  # DeadlineExceeded.

  revokeJoinToken @16 (id :Text) -> () $allow("os:admin") $audit;
  # Revokes a token, so that no node joins with it any more. A worker that has joined with it keeps
  # its certificate and renews it.
  # Errors: NotFound for an unknown token. FailedPrecondition, Unavailable and DeadlineExceeded as
  # for createJoinToken().
  # Repeat: does nothing for a token that is already revoked.

  interface SnapshotUpload {
    # An upload that is dropped before done() leaves nothing.

    write @0 (bytes :Data) -> stream $allow("os:admin");
    # Appends bytes to the upload.
    # Errors: InvalidArgument beyond 8 GiB. ResourceExhausted when the disk has no room but its
    # reserve. FailedPrecondition after the upload has ended. Each error ends the upload.

    done @1 () -> (size :UInt64) $allow("os:admin") $audit;
    # Ends the upload. Answers when the bytes are stored, in place of an earlier upload. They stay
    # until the next bootstrap(), whatever its outcome, for an hour, or until etcd-supervisor exits.
    # The bytes have not been verified yet.
    # Errors: FailedPrecondition when the upload has ended before, also for a repeated call.
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
    enum State {
      unused @0;                 # next: used, expired, revoked
      used @1;                   # next: revoked
      expired @2;                # next: revoked
      revoked @3;
    }
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
      none @0;                   # no cluster, and no request for one. Next: claiming, member
      claiming @1;               # is about to make a cluster, and calls the others. Next:
                                 # bootstrapping; none or member if another node was first
      bootstrapping @2;          # has called the others, and makes the cluster. Next: member; none if
                                 # its snapshot cannot be restored
      member @3;                 # joins a cluster, or has data of one. Next: none after it has left
    }
  }
}
