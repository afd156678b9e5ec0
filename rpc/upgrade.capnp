@0xd2a94e7b3c51f086;
# Installs another system on an installed node: written into the slot that does not run, tried once,
# confirmed when it is healthy, and rolled back automatically otherwise. Progress is in the resource
# UpgradeStatuses/node.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".audit;
using import "annotations.capnp".secret;
using import "stream.capnp".ByteSource;

interface Upgrades {
  upgrade @0 (image :Text, preserve :Bool, healthTimeoutS :UInt32, query :Text $secret, file :ImageFile,
      force :Bool, stage :Bool, live :Bool)
      -> (bootId :Text) $allow("os:admin") $audit;
  # Installs the system of an image in the other slot and reboots into it, on trial. Answers with
  # the id of the boot that ends when the image is fetched and verified; until then nothing has been
  # changed. The rest follows without the caller, and UpgradeStatuses/node has its progress and its
  # failure.
  # `image`: a reference for a registry, or the URL of an archive, https://host/path#sha256=<hex>,
  # whose part after the question mark is in `query`. With `file`, `image` is only its name. Without
  # `preserve` the new system starts with an empty EPHEMERAL, and a control-plane node leaves its
  # etcd cluster before the reboot. `healthTimeoutS`: 30 to 86400; 0: the default, 600. `stage`: the
  # node does not reboot; the new system is tried at the next reboot, and without `preserve` the
  # node leaves etcd then. `force`: installs an image that the node would refuse for its version or
  # for a key of the config, skips the check of etcd, and lets leaving etcd fail. `live`: the node
  # does not reboot and is not drained; the new system takes over under the running pods, on trial,
  # and the old one takes over again if it is not healthy. It needs `preserve`, excludes `stage`, and
  # `healthTimeoutS` is 1048576 more than the seconds: an older system, which ignores `live` and would
  # reboot, refuses this timeout. An image with another process 1 is refused; what else only a
  # reboot could change fails the upgrade after the answer, when the other slot is written.
  # Errors: FailedPrecondition in a container whose launcher gave it no slots, on a node that was
  # not started from its disk, during a trial, if the image is not an installer image or does not
  # know a key of the config, and, with machine.install.imageKey, if it is older than the newest
  # system that was ever confirmed here (`force` skips the last two), and when BOOT has no room for
  # it beside the running system. Conflict while another upgrade
  # is under way, or when machine.install.imageKey was changed meanwhile. InvalidArgument for
  # another timeout, a missing `image`, or bytes that do not have the digest. NotFound for a digest
  # of a file that the node does not keep. PermissionDenied without a signature by
  # machine.install.imageKey. ResourceExhausted when EPHEMERAL has no room for the archive.
  # Unavailable when the etcd cluster would lose its quorum, is unhealthy, or another node is
  # restarting: a control-plane node checks this before the fetch and, with `preserve`, again after
  # it. DeadlineExceeded when the node is still booting after 2 minutes, or a source has stopped
  # sending. From a registry also the errors of Containers.pull(), Unauthenticated among them. A
  # sequence that runs at that time makes the upgrade fail after the answer.
  # Cancel: before the answer, ends the fetch and changes nothing. After the answer it has no
  # effect.
  # Repeat: Conflict while the first call is under way. After a failure a call starts again; it
  # fetches the image again unless fetch() has kept it.

  rollback @1 (healthTimeoutS :UInt32, force :Bool, live :Bool) -> (bootId :Text, withdrawn :Text) $allow("os:admin") $audit;
  # Tries the system of the other slot, as an upgrade does: reboots into it, on trial. Keeps
  # EPHEMERAL; a control-plane node checks etcd like an upgrade with `preserve`, unless `force` is
  # set. If the other system is staged, withdraws it instead: the node does not reboot, and
  # `withdrawn` is its slot and version. `healthTimeoutS` and `live` are those of upgrade().
  # Errors: NotFound when the other slot has no system. FailedPrecondition where upgrade() has no
  # slot to write or a trial runs, when another slot than the running one is confirmed, when the
  # other system was withdrawn and has never run, and, with `live`, on a machine, and if only a reboot
  # can start the other system. Conflict while an upgrade is under way.
  # InvalidArgument for another timeout. Unavailable when the etcd cluster cannot spare the node.
  # DeadlineExceeded when the turn to restart does not come in time, or STATE does not accept the
  # record.
  # Cancel: has no effect; the rollback completes without the caller.
  # Repeat: Conflict while the first call is under way. After a withdrawal FailedPrecondition, so
  # that a repeated call never tries a system that has never run.

  confirm @2 () -> (lacked :Text) $allow("os:admin") $audit;
  # Confirms the running system that is on trial, even if it is not healthy yet. `lacked`: what it
  # waits for; empty if it was healthy.
  # Errors: FailedPrecondition when no trial is running, before STATE is mounted, or when the system
  # was given up. Unavailable when the disk does not accept the choice; the trial continues.
  # Cancel: has no effect; the system is confirmed without the caller.
  # Repeat: FailedPrecondition after the first call, and changes nothing.

  fetch @3 (image :Text, query :Text $secret, file :ImageFile, force :Bool, keep :Bool)
      -> (digest :Text, version :Text, signed :Bool) $allow("os:admin") $audit;
  # Fetches an image and verifies it like upgrade(), and installs nothing. `digest` is the `image`
  # with which another node, or upgrade() on this one, gets the same bytes; `signed`: its signature
  # fits machine.install.imageKey. `keep`: an upgrade() to this digest does not fetch it again, for
  # an hour, until another image is requested, or until machined restarts. A file that is kept needs
  # no `file` then: `image` is sha256:<hex>. `force`: accepts an image that upgrade() would refuse
  # for its version or for a key of the config.
  # Errors: those of upgrade(), without those of etcd and of the timeout: InvalidArgument, NotFound,
  # PermissionDenied, Unauthenticated, FailedPrecondition, Conflict, Unavailable, DeadlineExceeded,
  # ResourceExhausted.
  # Cancel: ends the fetch. An image that an earlier call has kept may be gone then.
  # Repeat: Conflict while a fetch is under way; otherwise safe.
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
  live @14 :Bool;            # the node did not reboot for it
  enum Stage {
    # A new request replaces a record in the stage done, failed or, if staged, written: an upgrade
    # begins with writing, a rollback with written.
    writing @0;              # the other slot; it cannot be started. Next: written, failed
    written @1;              # the boot loader tries it next. Next: started; failed if it is withdrawn
                             # or its machined never ran; done if STATE lost the stages between
    started @2;              # its machined runs. Next: done, givingUp; failed if it ended by itself
    givingUp @3;             # it rolls back automatically. Next: failed; started if only the brain
                             # was restarted
    done @4;                 # last
    failed @5;               # last. Next: started only if the boot loader has the choice all the same
  }
}
