@0xd03531dcf91db216;
# Between etcd-supervisor and backupd, of one image: the store of cluster.etcd.backup.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using ByteSource = import "stream.capnp".ByteSource;

interface Backupd {
  # Bootstrap of /run/talos/backupd.sock, for etcd-supervisor alone. `store` names the store that the caller's config has
  # ("ENDPOINT/BUCKET"): Unavailable while backupd knows another one. Errors of the store are Unavailable, too, and say what
  # it answered.
  list @0 (store :Text, prefix :Text) -> (names :List(Text));
  # All names that begin with `prefix`, sorted. Unavailable when there are more than 100000, or they are more than 7 MiB.
  put @1 (store :Text, name :Text, size :UInt64, sha256 :Text, content :ByteSource) -> ();
  # The store has all of it, and has checked its hash, when this answers; before that it shows nothing of that name, or what
  # it had.
  remove @2 (store :Text, name :Text) -> ();
  # An object that is not there is no error.
  ready @3 () -> ();
  # Answers when backupd serves.
}
