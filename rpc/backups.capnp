@0xd03531dcf91db216;
# Interface of backupd for etcd-supervisor, both of one image: access to the store of cluster.etcd.backup.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using ByteSource = import "stream.capnp".ByteSource;

interface Backupd {
  # Bootstrap of /run/talos/backupd.sock, for etcd-supervisor alone. `store` names the store in the caller's config
  # ("ENDPOINT/BUCKET"): Unavailable while backupd has another store. Errors of the store are Unavailable, too, and
  # contain its answer.
  list @0 (store :Text, prefix :Text) -> (names :List(Text));
  # Returns all names that begin with `prefix`, sorted. Unavailable for more than 100000 names, or more than 7 MiB of
  # them.
  put @1 (store :Text, name :Text, size :UInt64, sha256 :Text, content :ByteSource) -> ();
  # Stores an object. When this answers, the store has the whole object and has checked its hash. Before that, the store
  # shows no object of this name, or the earlier one.
  remove @2 (store :Text, name :Text) -> ();
  # Removes an object; it is no error if the object does not exist.
  ready @3 () -> ();
  # Answers when backupd serves requests.
}
