// rotate-ca
#include "talosctl/rotate-ca/rotate-ca-command.h"

#include <unistd.h>

#include "common/base/error.h"
#include "common/text/texts.h"
#include "talosctl/rollout/continuation.h"
#include "talosctl/rotate-ca/rotations.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kUnchanged = "> nothing was changed; use --dry-run=false to rotate\n"_kj;

kj::Promise<kj::Maybe<kj::String>> connectError(RemoteRotation& cluster) {
  kj::Maybe<kj::String> error;
  co_await cluster.connect().catch_([&](kj::Exception&& e) { error = messageOf(e); });
  co_return kj::mv(error);
}

// Returns the credentials that connect. If the old CA is dropped at every endpoint but not at every
// node, only the client configuration of the earlier run is served.
kj::Promise<Credentials> credentialsThatConnect(RemoteRotation& cluster, Credentials present,
                                                kj::StringPtr output) {
  auto error = co_await connectError(cluster);
  KJ_IF_MAYBE (e, error) {
    if (access(output.cStr(), F_OK) != 0) fail(ErrorKind::kUnavailable, *e);
    auto written = Talosconfig::load(output).resolve().credentials();
    cluster.use(copyOf(written));
    if (co_await connectError(cluster) != nullptr) fail(ErrorKind::kUnavailable, *e);
    co_return kj::mv(written);
  }
  co_return kj::mv(present);
}

void addAll(kj::Vector<kj::String>& to, kj::ArrayPtr<const kj::String> hosts) {
  for (auto& host : hosts) {
    checkHost(host, "node");
    addOnce(to, kj::str(host));
  }
}

RotationOptions optionsOf(Invocation& call, const Target& target) {
  RotationOptions options;
  addAll(options.nodes, call.list("control-plane-nodes"));
  addAll(options.nodes, call.list("init-node"));
  addAll(options.nodes, call.list("worker-nodes"));
  addAll(options.planes, call.list("control-plane-nodes"));
  addAll(options.planes, call.list("init-node"));
  addAll(options.workers, call.list("worker-nodes"));
  if (options.nodes.size() > 0) {
    options.asked = kj::str(options.nodes[0]);
  } else if (target.nodes.size() > 0) {
    options.asked = kj::str(target.nodes[0]);
  }
  options.dryRun = call.on("dry-run");
  options.output = kj::str(call.text("output"));
  auto config = Talosconfig::load(configPath(call));
  for (auto& node : config.resolve(call.text("context")).nodes) {
    options.contextNodes.add(kj::str(node));
  }
  for (auto& path : call.list(kRenewedConfigs)) options.renewed.add(kj::str(path));
  options.mark = kj::str(call.text(kChangeMark));
  options.contextName =
      kj::str(call.given("context") ? call.text("context") : config.currentName());
  return options;
}

// A CA or key that is rotated on its own, and its flag.
struct Single {
  kj::StringPtr flag;
  kj::Own<RotationRun> (*make)(Invocation&, RemoteRotation&, const RotationOptions&);
};

constexpr Single kSingles[] = {{"secrets-key"_kj, secretsKeyRotation},
                               {"service-account-key"_kj, serviceAccountRotation},
                               {"aggregator-ca"_kj, aggregatorRotation},
                               {"etcd-ca"_kj, etcdRotation}};

kj::Maybe<const Single*> singleOf(Invocation& call) {
  kj::Maybe<const Single*> found;
  for (auto& one : kSingles) {
    if (!call.on(one.flag)) continue;
    KJ_IF_MAYBE (earlier, found) {
      failUsage(kj::str("use --", (*earlier)->flag, " or --", one.flag, ", one after the other"));
    }
    found = &one;
  }
  return found;
}

// How far the rotations are, for the line that an interrupt prints.
struct UnderWay {
  bool last = false;         // no rotation follows the one that runs
  bool complete = false;     // no config has the old CA or key any more
  bool machineDone = false;  // the rotation of the machine API's CA has ended
};

// A cluster whose last config has changed looks like one without a rotation, so the same command
// would begin another rotation.
kj::String nextStep(const Invocation& call, const UnderWay& now) {
  if (call.on("dry-run")) return kj::String();
  if (now.complete && now.last) {
    return kj::str(
        "nothing is left to continue: no config has the old one any more; the last "
        "checks were not made");
  }
  ChangedFlag withoutMachine[] = {{"talos"_kj, "false"_kj}};
  if (now.complete || now.machineDone) return continueWith(call, withoutMachine);
  return continueWith(call);
}

// Returns true if an earlier run has begun the rotation and did not end it.
bool isBegun(const RotationRun& run) {
  return run.state().rotation.begun;
}

kj::Promise<void> runOne(RotationRun& rotation, UnderWay& now, bool last) {
  now = {.last = last, .machineDone = now.machineDone};
  KJ_DEFER(now.complete = isComplete(rotation.state().rotation,
                                     rotation.state().nodes));  // also when the run is dropped
  co_await rotation.run();
}

kj::Promise<int> rotate(Invocation& call, UnderWay& now) {
  bool machine = call.on("talos"), kubernetes = call.on("kubernetes");
  if (!machine && !kubernetes) {
    failUsage("there is nothing to rotate with --talos=false --kubernetes=false");
  }
  auto single = singleOf(call);
  auto target = resolveTarget(call);
  if (target.local) failUsage("rotate-ca needs endpoints of the cluster, not the socket of a node");
  auto options = optionsOf(call, target);
  auto present = copyOf(target.credentials);
  RemoteRotation cluster(call.deps, kj::mv(target), call.deadline());
  KJ_IF_MAYBE (alone, single) {
    auto rotation = (*alone)->make(call, cluster, options);
    co_await rotation->look();
    if (!options.dryRun) {
      co_await runOne(*rotation, now, true);
      co_return 0;
    }
    co_await rotation->show();
    call.out(kUnchanged);
    co_return 0;
  }
  present = co_await credentialsThatConnect(cluster, kj::mv(present), options.output);
  auto ofMachine = machineRotation(call, cluster, options, kj::mv(present));
  auto ofKubernetes = kubernetesRotation(call, cluster, options);
  // Checks both rotations before anything is changed.
  if (machine) co_await ofMachine->look();
  if (kubernetes) co_await ofKubernetes->look();
  if (machine && kubernetes && isBegun(*ofKubernetes) && !isBegun(*ofMachine)) {
    // The earlier run has rotated the machine API's CA already.
    call.err("> continued with the CA of Kubernetes; use --kubernetes=false for the other one\n");
    machine = false;
  }
  if (options.dryRun) {
    if (machine) co_await ofMachine->show();
    if (kubernetes) co_await ofKubernetes->show();
    call.out(kUnchanged);
    co_return 0;
  }
  if (machine) co_await runOne(*ofMachine, now, !kubernetes);
  now.machineDone = machine;
  if (kubernetes) co_await runOne(*ofKubernetes, now, true);
  co_return 0;
}

}  // namespace

kj::Promise<int> runRotateCa(Invocation& call) {
  auto now = kj::heap<UnderWay>();
  auto& state = *now;
  return untilInterrupted(call, rotate(call, state),
                          [&call, &state]() { return nextStep(call, state); })
      .attach(kj::mv(now));
}

void addRotateCaCommand(Command& root) {
  auto& command = root.add(
      "rotate-ca", "Replace the CAs of the machine API and of Kubernetes of a running cluster");
  command.details =
      "First the CA of the machine API, then that of Kubernetes, each in three phases that are "
      "shown by every node before the next begins: all nodes accept the new CA beside the "
      "present one, get certificates of it, and drop the old one. Clients of either CA are served "
      "until the last phase. For the CA of Kubernetes the kubelets, controller managers and "
      "schedulers are restarted one after the other; nothing else restarts. The nodes are those of "
      "Kubernetes, or the named ones, which must be all of the cluster; a node that does not "
      "answer ends the run. A run that was cut off continues when the command is started again: "
      "the configs of the nodes say how far it has come.\n\n"
      "A client configuration of the new CA of the machine API is written to --output, and before "
      "the old CA is dropped the context gets its certificate and key, so that it works at every "
      "moment. Other client configurations have to be made again (talosctl config new), and "
      "kubeconfigs too (talosctl kubeconfig).\n\n"
      "--secrets-key, --service-account-key, --aggregator-ca and --etcd-ca each rotate something "
      "else, and only that, in phases of the same kind, on the control-plane nodes; API servers "
      "are restarted, one after the other, and with --etcd-ca the members of etcd too.\n\n"
      "With --secrets-key all Secrets are written again before the old key is dropped. With "
      "--service-account-key the run ends before that, and names the Secrets and pods that may "
      "have tokens of the old key; the same command continues.";
  command.flag({.name = "aggregator-ca",
                .fallback = "false",
                .help = "only the CA of Kubernetes' aggregation layer (front proxy)"});
  command.flag({.name = kRenewedConfigs,
                .kind = FlagKind::kTexts,
                .help = "also renew the current context of this client configuration",
                .hidden = true});
  command.flag({.name = kChangeMark,
                .kind = FlagKind::kText,
                .help = "write this empty file before the first change",
                .hidden = true});
  command.flag({.name = "control-plane-nodes",
                .kind = FlagKind::kList,
                .help = "the control-plane nodes (default: of Kubernetes)"});
  command.flag(
      {.name = "dry-run", .fallback = "true", .help = "change nothing; show what would be done"});
  command.flag({.name = "etcd-ca", .fallback = "false", .help = "only the CA of etcd"});
  command.flag({.name = "init-node",
                .kind = FlagKind::kList,
                .help = "a control-plane node of the type init"});
  command.flag({.name = "kubernetes", .fallback = "true", .help = "the CA of Kubernetes"});
  command.flag({.name = "output",
                .letter = "o",
                .kind = FlagKind::kText,
                .fallback = "talosconfig",
                .help = "file for the new client configuration"});
  command.flag({.name = "secrets-key",
                .fallback = "false",
                .help = "only the key of Kubernetes' Secrets in etcd"});
  command.flag({.name = "service-account-key",
                .fallback = "false",
                .help = "only the key that signs service account tokens"});
  command.flag({.name = "talos", .fallback = "true", .help = "the CA of the machine API"});
  command.flag({.name = "worker-nodes",
                .kind = FlagKind::kList,
                .help = "the workers (default: of Kubernetes)"});
  declareRollout(command);
  command.run = runRotateCa;
}

}  // namespace talos::talosctl
