@0xe3a1c7d25b8f4096;
# Validates, compares and applies the machine config of a node. Modes: docs/talosctl.md, apply-config.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".maintenance;
using import "annotations.capnp".audit;

interface Configuration {
  apply @0 (request :ApplyRequest) -> (result :ApplyResult) $allow("os:admin") $maintenance $audit;
  # Validates the document completely before anything changes. When the answer arrives, the whole document is on disk;
  # or, for noReboot with persist: false, it is in memory only, and an older copy on disk is removed. An answer with an
  # operation arrives earlier. A caller that disconnects does not stop the apply.
  #   InvalidArgument: the document has errors; all problems, one per line.
  #   Conflict: another apply runs; or the running config is not of ifVersion; or a sequence runs. A dry run, and a node
  #     that waits for a config, are not affected by a sequence. Mode staged is accepted during a boot, too, as soon as
  #     the boot has written its own config and waits for its services.
  #   FailedPrecondition: the mode is not possible. noReboot: changes need a reboot (each is named, one per line),
  #     or the boot has failed. reboot, staged: the next boot would not read the document (persist: false, or no
  #     disk is mounted for it).
  #   Unauthenticated: a caller without a certificate, as soon as there is a config.
  #   ResourceExhausted: too many large documents are being validated at the moment.
  # In maintenance mode the node boots with the document: the mode in the answer is noReboot, changes and diff are
  # empty, and `staged` is refused.

  generate @1 (request :GenerateRequest) -> (documents :List(GeneratedFile)) $allow("os:admin") $maintenance $audit;
  # Generates the machine configs and the administrator's client configuration of a cluster, as `talosctl gen config`
  # does, for this node's version. A node without a config generates new secrets; a control-plane node uses its cluster's
  # secrets (an empty name or endpoint then means its cluster's). FailedPrecondition on a worker, which has no secrets.
}

enum ApplyMode {
  auto @0;        # noReboot if no change needs a reboot, else reboot
  reboot @1;      # written to disk, then reboot; the running config stays until then
  noReboot @2;    # takes effect at once
  staged @3;      # written to disk for the next boot; nothing else changes
  try @4;         # takes effect at once, in memory only, like noReboot; reverted after tryTimeoutMs, and by a
                  # reboot. Another try restarts the time. Until the trial ends, other modes accept only the document on
                  # trial, which noReboot confirms, and the document from before, with which noReboot ends the trial;
                  # others are a FailedPrecondition. So is a try in maintenance mode: there is no config to revert to.
}

struct ApplyRequest {
  document @0 :Data;
  mode @1 :ApplyMode = reboot;
  dryRun @2 :Bool;              # nothing changes
  tryTimeoutMs @3 :UInt64 = 60000;   # one second to one day; setting the clock does not affect it
  ifVersion @4 :UInt64;         # version of the resource MachineConfigs/v1alpha1 that the document is based on:
                                # Conflict if the running config has another version. 0: any
  manifests @5 :Bool;           # dryRun: answer with the manifests, too
  operation @6 :UInt64;         # not 0: a random number that the caller chooses. The resource Operations/apply-config
                                # then has the outcome under this number, until another apply or the next boot, also
                                # for a caller that lost its connection; not for a dry run and mode try. A change of
                                # volume keys is answered as soon as it has begun, in every mode. 0: only in noReboot
  trialTimeoutMs @7 :UInt64;    # modes auto, noReboot, reboot and staged: the time in which the node has to do with the
                                # new config what it did before; otherwise the previous config comes back. A minute to
                                # one day; 0: the default, 10 minutes
  noTrial @8 :Bool;             # the same modes: the config stays, whatever the node does with it
  callsAgain @9 :Bool;          # the client calls the node again after the answer, so that a config with which the node
                                # cannot be reached goes back, too
}
struct ApplyResult {
  mode @0 :ApplyMode;           # the mode that was (dryRun: would be) used; never auto
  warnings @1 :List(Text);      # one problem each, as they are printed
  changes @2 :List(ConfigChange);   # from the running config
  diff @3 :Text;                # unified, from the text of the running config; secrets are ***
  bootId @4 :Text;              # id of the boot that ends, if mode is reboot, or that has the operation, if not 0
  networkPlan @5 :List(Text);   # dryRun: the steps of networkd, in order; a warning if they are unknown
  networkProblems @6 :List(Text);   # dryRun: what networkd cannot do
  revertsInMs @7 :UInt64;       # mode try: time until the config is reverted
  operation @8 :UInt64;         # number of the resource Operations/apply-config. Not 0: keys of volumes are being
                                # changed; the config is stored, and takes effect as `mode` says, after that
  notInEffect @9 :List(Text);   # parts of the changes that are not in effect, and why; the config is stored anyway.
                                # dryRun: those that are known before
  confirmed @10 :Bool;          # the config was on trial, and is (dryRun: would be) kept
  manifests @11 :List(Manifest);    # that a control-plane node makes of this config, if requested
  restarts @12 :List(Text);     # parts of the control plane that the changes restart (dryRun: would), as kube-apiserver
  volumePlan @13 :List(Text);   # dryRun: what the volumes of the config do to disks, and what they wait for
  trialMs @14 :UInt64;          # the config is (dryRun: would be) on trial for at most this time; then the previous one
                                # comes back, unless all of trialDuties are fulfilled. 0: not on trial
  trialDuties @15 :List(Text);  # what the node did before this change and has to do after it, as "Kubernetes node"
}
struct Manifest {
  id @0 :Text;
  objects @1 :Text;             # YAML: a list. The secret half of the bootstrap token is ***
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
