// upgrade-cluster
#include "common/base/error.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/rollout/continuation.h"
#include "talosctl/rollout/rollout-flags.h"
#include "talosctl/upgrade-cluster/remote-nodes.h"

namespace talos::talosctl {
namespace {

constexpr int64_t kMostParallel = 64;
constexpr auto kLeastHealth = 30 * kj::SECONDS, kMostHealth = 24 * kj::HOURS;

// Returns the digest if the text names it. For a text with a tag, or a URL, a node determines the
// digest.
kj::String digestIn(const ImageSource& source) {
  KJ_IF_MAYBE (file, source.file) return (*file)->digestText();
  auto& name = source.name;
  if (name.name.startsWith("https://") || name.name.startsWith("http://")) return kj::String();
  KJ_IF_MAYBE (at, name.name.findLast('@')) {
    // A tag before a digest has no meaning, and a node leaves it out.
    auto repository = kj::str(name.name.slice(0, *at));
    auto slash = repository.findLast('/').orDefault(0);
    KJ_IF_MAYBE (colon, repository.findLast(':')) {
      if (*colon > slash) repository = kj::str(repository.slice(0, *colon));
    }
    return kj::str(repository, name.name.slice(*at));
  }
  return kj::String();
}

kj::Promise<int> upgradeCluster(Invocation& call) {
  auto parallel = call.number("parallel");
  if (parallel < 1 || parallel > kMostParallel) {
    failUsage(kj::str("--parallel must be 1 to ", kMostParallel));
  }
  auto health = call.duration("health-timeout");
  if (health < kLeastHealth || health > kMostHealth) {
    failUsage("--health-timeout must be 30s to 24h");
  }
  auto text = call.text("image");
  ImageSource source{.name = splitImageName(text), .file = nullptr};
  if (isImageFile(text)) source.file = co_await ImageFile::open(call.deps.timer, text);
  bool asks = !call.on("yes") && !call.on("dry-run");
  if (asks && !canAsk(call, "whether to upgrade")) {
    fail(ErrorKind::kFailedPrecondition,
         "cannot ask whether to upgrade: there is no terminal; use --yes, or --dry-run to see what "
         "would be done");
  }
  auto session = co_await openSession(call, kDeadline);
  auto nodes = session->client.nodes();
  bool kubernetes = call.on("kubernetes");
  if (kubernetes && nodes.size() > 1) {
    auto others = nodes.slice(1, nodes.size());
    call.err(kj::str("using ", nodes[0], "; ignoring ", kj::strArray(others, ", "),
                     ": Kubernetes lists the other nodes\n"));
    nodes = nodes.slice(0, 1);
  }
  TargetImage target{kj::str(source.name.name), digestIn(source), kj::String()};
  RollingOptions options{.parallel = static_cast<unsigned>(parallel),
                         .ignoreBudgets = call.on("ignore-budgets"),
                         .dryRun = call.on("dry-run"),
                         .live = call.on("live"),
                         .healthTimeout = health};
  RemoteNodes cluster(call, source, nodes, kubernetes, static_cast<unsigned>(health / kj::SECONDS));
  RollingLines lines(call.deps.console, eventFormat(call));
  auto confirm = [&call, asks](kj::StringPtr question) -> kj::Promise<bool> {
    if (!asks) return true;
    return confirmed(call.deps, question);
  };
  RollingRun run(call.deps.timer, cluster, lines, kj::mv(target), options, kj::mv(confirm));
  kj::Maybe<kj::Exception> failure;
  try {
    co_return co_await run.run() ? 0 : 1;
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  auto& e = KJ_ASSERT_NONNULL(failure);
  lines.failed(messageOf(e));
  kj::throwFatalException(kj::mv(e));
}

kj::Promise<int> runUpgradeCluster(Invocation& call) {
  return untilInterrupted(call, upgradeCluster(call));
}

}  // namespace

void addUpgradeClusterCommand(Command& root) {
  auto& command = root.add("upgrade-cluster", "Upgrade every node of a cluster to another system");
  command.details =
      "The first of --nodes is a control-plane node; the others are found in Kubernetes. Nodes, "
      "etcd and Kubernetes are surveyed, and every node fetches and verifies the image, before "
      "anything is changed. Then the nodes of the control plane are upgraded one after the other, "
      "the holder of a shared address and the leader of etcd last, then the workers. The data of "
      "the nodes is kept. Each is drained, and followed until its new system is confirmed, etcd "
      "has caught up and Kubernetes has it back. The first that is not well stops the run, and the "
      "others stay as they are. A run that was cut off continues when it is started again, by "
      "anybody: nodes that run the image are left as they are, and one in the middle of its "
      "upgrade is followed.\n\n"
      "With --dry-run the nodes fetch and verify the image as well, and do not keep it.";
  command.flag({.name = "dry-run", .help = "change nothing; show what would be done"});
  command.flag({.name = "health-timeout",
                .kind = FlagKind::kDuration,
                .fallback = "10m",
                .help = "how long a new system has to become healthy, 30s to 24h"});
  command.flag({.name = "ignore-budgets",
                .help = "upgrade nodes even if a PodDisruptionBudget forbids that their pods "
                        "leave; the pods are ended with the reboot"});
  command.flag({.name = "image",
                .letter = "i",
                .kind = FlagKind::kText,
                .help = "the installer image, as that of talosctl upgrade",
                .required = true});
  command.flag({.name = "kubernetes",
                .fallback = "true",
                .help = "false: do not ask Kubernetes; the nodes are those of --nodes, all of the "
                        "cluster"});
  command.flag({.name = "live",
                .help = "without reboots, as --live of talosctl upgrade: pods keep running"});
  addRolloutOutput(command);
  command.flag({.name = "parallel",
                .kind = FlagKind::kNumber,
                .fallback = "1",
                .help = "so many workers at a time, 1 to 64"});
  command.flag({.name = "yes", .letter = "y", .help = "do not ask before the first change"});
  declareRollout(command);
  command.run = runUpgradeCluster;
}

}  // namespace talos::talosctl
