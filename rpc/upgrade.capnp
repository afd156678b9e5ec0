@0xd2a94e7b3c51f086;
# Installs another system on an installed node: written into the slot that does not run, tried once, confirmed when it
# is healthy, and rolled back automatically otherwise. Progress is in the resource UpgradeStatuses/node.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".audit;
using import "annotations.capnp".secret;
using import "stream.capnp".ByteSource;

interface Upgrades {
  upgrade @0 (image :Text, preserve :Bool, healthTimeoutS :UInt32, query :Text $secret, file :ImageFile,
      force :Bool, stage :Bool)
      -> (bootId :Text) $allow("os:admin") $audit;
  # Fetches the installer image and then answers with the id of the boot that ends. From there on the upgrade continues
  # without the caller. healthTimeoutS of 0: the default, 10 minutes. Without `preserve` the new system starts with an
  # empty EPHEMERAL. FailedPrecondition in a container, and on a node that is not installed; Conflict while another
  # upgrade, or another sequence, is under way; the errors of Containers.pull.
  # `image` is a reference for a registry, or the URL of an archive, https://host/path#sha256=<hex>; the part of such a
  # URL after the question mark is in `query`. With `file`, `image` is only its name. InvalidArgument when the bytes do
  # not have the digest.
  # A control-plane node checks before and after the fetch that etcd can do without it: Unavailable when its cluster
  # would lose its quorum, is unhealthy, or another node is restarting. Without `preserve` the node leaves its cluster
  # before the reboot. `force`: the check is left out, and leaving may fail.
  # FailedPrecondition when machine.install.imageKey is set and the image is older than the newest system that was ever
  # confirmed on this node; `force` installs it.
  # `stage`: the node does not reboot. The new system is tried at the next reboot, and without `preserve` the node
  # leaves etcd then.
  rollback @1 (healthTimeoutS :UInt32, force :Bool) -> (bootId :Text, withdrawn :Text) $allow("os:admin") $audit;
  # Tries the system of the other slot in the same way. NotFound without such a system. EPHEMERAL is kept: a
  # control-plane node checks etcd as an upgrade with `preserve` does. A system that is staged is not tried: it is
  # withdrawn, and the node does not reboot. `withdrawn` is its slot and version.
  confirm @2 () -> (lacked :Text) $allow("os:admin") $audit;
  # Confirms the running system that is on trial, even if it is not healthy yet. `lacked`: what it waits for; empty if
  # it was healthy. FailedPrecondition when no trial is running; Unavailable when the disk does not accept it, and the
  # trial continues.
  fetch @3 (image :Text, query :Text $secret, file :ImageFile, force :Bool, keep :Bool)
      -> (digest :Text, version :Text, signed :Bool) $allow("os:admin") $audit;
  # Fetches an image and verifies it as upgrade() does, and changes nothing else. The errors of upgrade(), without those
  # of etcd. `digest` is the `image` with which another node, or upgrade() on this one, gets the same; `signed`: its
  # signature fits machine.install.imageKey. `keep`: an upgrade() to this digest does not fetch it again, for an hour,
  # until another image is requested, or until machined restarts. A file that is kept needs no `file` then: `image` is
  # sha256:<hex>.
}

struct ImageFile {
  # An archive with an image that the caller has.
  bytes @0 :ByteSource;      # unset: no file
  size @1 :UInt64;
  sha256 @2 :Data;
  signature @3 :Data;        # of the bytes, in DER or as it is in base64; empty: none
}

struct UpgradeRecord {
  # The newest upgrade, as stored on STATE, where both systems read and write it.
  image @0 :Text;            # empty: a rollback
  digest @1 :Text;
  from @2 :Text;             # slot and version: "A"
  fromVersion @3 :Text;
  to @4 :Text;
  toVersion @5 :Text;
  healthTimeoutS @6 :UInt32;
  empty @7 :Bool;            # the new system has yet to empty EPHEMERAL
  stage @8 :Stage;
  reason @9 :Text;           # of a failure; of a trial, what it waits for
  began @10 :Int64;          # ns since 1970
  emptying @11 :Bool;        # emptying has begun: whichever system starts completes it
  staged @12 :Bool;          # written: the boot loader tries it after the next reboot; failed: it was withdrawn
  forced @13 :Bool;          # staged: leaving etcd may fail
  enum Stage {
    writing @0;              # the other slot; it cannot be started
    written @1;              # the boot loader tries it next
    started @2;              # its machined runs
    givingUp @3;             # it rolls back automatically
    done @4;
    failed @5;
  }
}
