@0xe3a1c7d25b8f4096;
# The machine config of a node: checked, compared, and put in place. Modes: spec machine-config.md §11.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".maintenance;
using import "annotations.capnp".audit;

interface Configuration {
  apply @0 (request :ApplyRequest) -> (result :ApplyResult) $allow("os:admin") $maintenance $audit;
  # Every document is checked whole before anything changes: InvalidArgument with all its problems, one a line.
  # Conflict while a sequence other than waiting for a config runs, or while another apply is under way.
  # FailedPrecondition when the mode cannot be: `noReboot` with changes that need a reboot (each is named, one a
  # line), or on a machine whose boot has failed; `reboot` or `staged` with a document that the next boot would
  # not read (persist: false, or no disk is mounted for it), `reboot` in mode container. What was answered has
  # happened: the document is on disk, whole, or (noReboot with persist: false) only in memory, as it asks, and
  # an older copy is gone. A caller that goes away does not stop what has begun. In maintenance mode: the machine
  # goes on with the document, the answered mode is noReboot, and there are no changes and no diff, since there is
  # nothing to compare with; `staged` is refused. Callers without a certificate: Unauthenticated from the moment
  # that there is a config. ResourceExhausted: several large documents are being checked at the moment.

  generate @1 (request :GenerateRequest) -> (documents :List(GeneratedFile)) $allow("os:admin") $maintenance;
  # Machine configs and the administrator's client configuration of a cluster, as `talosctl gen config` makes
  # them, by this machine's version: with new secrets on a machine that has no config, with those of its own
  # cluster on a control-plane machine (where an empty name or endpoint means its own). FailedPrecondition on a
  # worker, which has none.
}

enum ApplyMode {
  auto @0;        # noReboot when every change can be, else reboot
  reboot @1;      # put on disk, then reboot into it; the running config stays until then
  noReboot @2;    # takes effect at once
  staged @3;      # put on disk for the next boot; nothing else
  try @4;         # takes effect at once, in memory only, as noReboot; the config of before comes back by itself
                  # after tryTimeoutMs, and at a reboot. Another try begins the time anew, noReboot makes its
                  # document the one that stays, reboot and staged leave it as it is: theirs is on disk.
                  # FailedPrecondition in maintenance mode: there is nothing to come back to.
}

struct ApplyRequest {
  document @0 :Data;
  mode @1 :ApplyMode = reboot;
  dryRun @2 :Bool;              # nothing changes
  tryTimeoutMs @3 :UInt64 = 60000;   # from a second to a day; the clock may be stepped meanwhile
  ifVersion @4 :UInt64;         # the version of the resource MachineConfigs/v1alpha1 that the document was made
                                # from: Conflict when the config that runs is another one. 0: whichever runs
}
struct ApplyResult {
  mode @0 :ApplyMode;           # what is (dryRun: would be) done; never auto
  warnings @1 :List(Text);      # one problem each, as they are printed
  changes @2 :List(ConfigChange);   # from the config that runs
  diff @3 :Text;                # unified, from the text of the config that runs; secrets are ***
  bootId @4 :Text;              # of the boot that ends, when mode is reboot
  networkPlan @5 :List(Text);   # dryRun: what networkd would do, in order. A warning tells when it is not known
  networkProblems @6 :List(Text);   # dryRun: what networkd could not do
  revertsInMs @7 :UInt64;       # mode try: when the config of before comes back
}
struct ConfigChange {
  path @0 :Text;                # machine.network.interfaces[0].cidr
  live @1 :Bool;                # takes effect without a reboot
}

struct GenerateRequest {
  clusterName @0 :Text;
  endpoint @1 :Text;            # https://host:port
  installDisk @2 :Text;
  installImage @3 :Text;
  kubernetesVersion @4 :Text;
  additionalSans @5 :List(Text);
  dnsDomain @6 :Text;
}
struct GeneratedFile { name @0 :Text; content @1 :Data; }   # controlplane.yaml, talosconfig …
