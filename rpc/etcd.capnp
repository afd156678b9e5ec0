@0xa2fe9aa100983415;
# etcd of a control-plane node, by etcd-supervisor. Operations: spec kubernetes.md §5-8. Members, leader and alarms
# are those of the whole cluster; everything else is this node's. Elsewhere every method is FailedPrecondition.
# How it goes is in the resource EtcdStatuses/etcd, which a caller can watch while it waits for an answer.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".audit;
using import "stream.capnp".ByteSource;
using import "stream.capnp".ByteSink;

interface Etcd {
  members @0 (local :Bool) -> (members :List(Member), quorum :Bool) $allow("os:reader");
  # Sorted by name, each asked how it is, for 2 s at most. Without a quorum they are those that the local member
  # knew last. Unavailable when no member is to be reached. `local`: what the local member knows, which may be old;
  # nobody else is asked anything, and FailedPrecondition when it does not run.
  status @1 () -> (status :MemberStatus) $allow("os:reader");
  # Of the local member. Unavailable when it does not run.

  bootstrap @2 (recovery :Recovery, without :List(Text), among :List(Text)) -> (done :Bool) $allow("os:admin") $audit;
  # Makes a new cluster with this node as its first member, and answers when that is healthy; done: it was so
  # before. Nothing is ever deleted. The other nodes that the config names, those in `among` (64 names or addresses at
  # most) and those that have asked this one are asked first: FailedPrecondition when one of them has a cluster, or the
  # data directory here is not empty; Conflict while another one makes a cluster; Unavailable, with their names, when
  # some cannot be reached. Those in `without` are not asked: who names one says that it has no cluster.
  leave @3 (force :Bool) -> () $allow("os:admin") $audit;
  # This node is no member any more when it answers, its etcd has ended and its data is gone. FailedPrecondition
  # for the only member, and, unless forced, when the others would have no quorum.
  removeMember @4 (member :Text, force :Bool) -> () $allow("os:admin") $audit;
  # By its id in hexadecimal, or its name when only one has that. Touches no node's data. As above.
  forfeitLeadership @5 () -> (leader :Text) $allow("os:admin") $audit;
  # The name of the new leader; empty: the local member was none. FailedPrecondition without another one.

  snapshot @6 (sink :ByteSink) -> () $allow("os:etcd:backup") $audit;
  # Of the local member: the database, and behind it its SHA-256.
  alarms @7 () -> (alarms :List(Alarm)) $allow("os:reader");
  disarm @8 () -> (alarms :List(Alarm)) $allow("os:admin") $audit;
  # All of them; answers with those that there were.
  defragment @9 () -> (before :UInt64, after :UInt64) $allow("os:admin") $audit;
  # The local member answers nothing meanwhile. Bytes of its database.

  standing @10 (asker :Text) -> (standing :Standing) $allow("os:reader");
  # What the etcd-supervisors of other nodes ask before one of them makes a cluster. `asker`: the address of the one
  # that is about to; it is on disk here before this answers, and is asked before this node makes one. A worker has no
  # cluster.

  keepSnapshot @11 () -> (upload :SnapshotUpload) $allow("os:admin");
  # For a caller that has a snapshot but nothing that can be read at any place: takes it, for the bootstrap() that is to
  # restore it. FailedPrecondition when the data directory is not empty.

  interface SnapshotUpload {
    # Nothing is left of it when it is dropped before done().
    write @0 (bytes :Data) -> stream $allow("os:admin");
    done @1 () -> (size :UInt64) $allow("os:admin") $audit;
    # Kept when it answers, in place of an earlier one, until the next bootstrap(), whatever comes of that, or until
    # etcd-supervisor exits. Nobody has looked at the bytes yet.
  }
  struct Member {
    id @0 :UInt64;
    name @1 :Text;               # empty: it has not started yet
    peerUrls @2 :List(Text);
    clientUrls @3 :List(Text);
    learner @4 :Bool;
    leader @5 :Bool;
    here @6 :Bool;               # on this node
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
  struct Standing {
    name @0 :Text;               # of the node
    state @1 :State;
    clusterId @2 :UInt64;        # of a member
    since @3 :Int64;             # of a claim: ns since 1970, for people
    enum State {
      none @0;                   # no cluster, and nobody asks for one
      claims @1;                 # is about to make one, and asks the others
      makes @2;                  # has asked them and makes it
      member @3;                 # has data of a cluster
    }
  }
}
