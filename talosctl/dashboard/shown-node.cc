#include "talosctl/dashboard/shown-node.h"

#include "common/base/date.h"
#include "common/health/service-state.h"
#include "common/text/size.h"
#include "talosctl/cli/table.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl::dashboard {

namespace {

kj::Maybe<rpc::Sample::Reader> newestSample(ShownNode node) {
  auto samples = node.getSamples();
  if (samples.size() == 0) return nullptr;
  return samples[samples.size() - 1];
}

bool isSilent(ShownNode node) {
  return node.getError().size() > 0;
}

// Returns services that should run and do not, or whose health check fails.
kj::Vector<rpc::Service::Reader> illServices(ShownNode node) {
  kj::Vector<rpc::Service::Reader> ill;
  for (auto service : node.getServices()) {
    auto state = service.getState();
    bool rests = state == rpc::ServiceState::FINISHED || state == rpc::ServiceState::SKIPPED;
    if (!rests && !isUp(service)) ill.add(service);
  }
  return ill;
}

// Adds problems that follow from an unhealthy service, if there is one: each once.
void addConsequences(kj::Vector<kj::String>& problems, ShownNode node) {
  auto etcd = node.getEtcd();
  if (node.hasEtcd() && etcd.getPhase().size() > 0 && etcd.getPhase() != "member") {
    problems.add(kj::str("etcd is ", etcd.getPhase(), etcd.getMessage().size() > 0 ? ": " : "",
                         etcd.getMessage()));
  }
  auto time = node.getTime();
  if (!time.getSynced() && !time.getSyncDisabled() && time.getProblem().size() > 0) {
    problems.add(kj::str("time: ", time.getProblem()));
  }
  auto kubernetes = node.getNodeStatus();
  if (!kubernetes.getReady() && kubernetes.getMessage().size() > 0) {
    problems.add(kj::str("Kubernetes: ", kubernetes.getMessage()));
  }
}

constexpr double kNearlyFull = 0.9, kGettingFull = 0.75;

// Dims the figures of a silent node, because they are old.
Look toneNow(ShownNode node, double share) {
  return isSilent(node) ? Look::kDim : toneOfShare(share);
}

}  // namespace

kj::String percent(unsigned tenths) {
  return kj::str((tenths + 5) / 10, " %");
}

kj::String rate(uint64_t bytesPerSecond) {
  return kj::str(decimalSize(bytesPerSecond), "/s");
}

kj::String rate(bool known, uint64_t bytesPerSecond) {
  return known ? rate(bytesPerSecond) : kj::str("-");
}

Look toneOfShare(double share) {
  return share >= kNearlyFull ? Look::kBad : share >= kGettingFull ? Look::kWarning : Look::kGood;
}

kj::String nameOf(ShownNode node) {
  auto hostname = node.getVersion().getHostname();
  return kj::str(hostname.size() > 0 ? hostname : node.getAddress());
}

kj::StringPtr stageName(rpc::Status::Stage stage) {
  switch (stage) {
    case rpc::Status::Stage::BOOTING:
      return "booting";
    case rpc::Status::Stage::RUNNING:
      return "running";
    case rpc::Status::Stage::FAILED:
      return "failed";
    case rpc::Status::Stage::REBOOTING:
      return "rebooting";
    case rpc::Status::Stage::SHUTTING_DOWN:
      return "shutting down";
    case rpc::Status::Stage::MAINTENANCE:
      return "maintenance";
    case rpc::Status::Stage::RESETTING:
      return "resetting";
  }
  return "unknown";
}

SheetCell stageOf(ShownNode node) {
  if (isSilent(node)) return {kj::str("-"), Look::kDim};
  auto status = node.getStatus();
  auto stage = status.getStage();
  if (stage == rpc::Status::Stage::RUNNING) {
    if (upgradeOf(node).text.size() == 0) return {kj::str("running")};
    return {kj::str("upgrade: ", node.getUpgrade().getStage()), upgradeOf(node).look};
  }
  auto phase = status.getPhase();
  auto text = phase.size() > 0 ? kj::str(stageName(stage), ": ", phase) : kj::str(stageName(stage));
  return {kj::mv(text), stage == rpc::Status::Stage::FAILED ? Look::kBad : Look::kWarning};
}

kj::Vector<kj::String> problemsOf(ShownNode node) {
  kj::Vector<kj::String> problems;
  if (isSilent(node)) {
    problems.add(kj::str(node.getError()));
    return problems;
  }
  for (auto problem : node.getStatus().getProblems()) problems.add(kj::str(problem));
  for (auto service : illServices(node)) {
    auto text = statementOf(service).text;
    if (text.size() == 0) text = kj::str(serviceStateName(service.getState()));
    problems.add(kj::str(service.getId(), ": ", text));
  }
  for (auto problem : node.getNetwork().getProblems()) problems.add(kj::str(problem));
  for (auto mount : node.getMounts()) {
    if (fillOf(mount).look == Look::kBad && isDiskFileSystem(mount)) {
      problems.add(kj::str(mount.getMountedOn(), " is nearly full"));
    }
  }
  auto etcd = node.getEtcd();
  for (auto alarm : etcd.getAlarms()) problems.add(kj::str("etcd alarm ", alarm));
  if (problems.empty()) addConsequences(problems, node);
  return problems;
}

kj::String problemOf(ShownNode node) {
  auto problems = problemsOf(node);
  return problems.empty() ? kj::String() : kj::mv(problems[0]);
}

SheetCell healthOf(ShownNode node) {
  if (isSilent(node)) return {kj::str("silent ", humanDuration(node.getSilentS())), Look::kBad};
  auto count = problemsOf(node).size();
  if (count == 0) return {kj::str("healthy"), Look::kGood};
  bool starts = node.getStatus().getStage() == rpc::Status::Stage::BOOTING;
  return {kj::str(count, count == 1 ? " problem" : " problems"),
          starts ? Look::kWarning : Look::kBad};
}

SheetCell cpuOf(ShownNode node) {
  KJ_IF_MAYBE (sample, newestSample(node)) {
    auto share = sample->getCpuBusy() / 1000.0;
    return {percent(sample->getCpuBusy()), toneNow(node, share), share};
  }
  return {kj::str("-"), Look::kDim};
}

SheetCell memoryOf(ShownNode node) {
  KJ_IF_MAYBE (sample, newestSample(node)) {
    auto total = sample->getMemoryTotal();
    if (total > 0) {
      auto used = total - kj::min(total, sample->getMemoryAvailable());
      auto share = double(used) / double(total);
      return {percent(unsigned(share * 1000)), toneNow(node, share), share};
    }
  }
  return {kj::str("-"), Look::kDim};
}

bool isDiskFileSystem(rpc::Mount::Reader mount) {
  if (mount.getReadOnly() || mount.getSize() == 0) return false;
  for (auto other : {"tmpfs"_kj, "devtmpfs"_kj, "squashfs"_kj, "overlay"_kj, "ramfs"_kj, "nfs"_kj,
                     "nfs4"_kj, "hugetlbfs"_kj}) {
    if (mount.getType() == other) return false;
  }
  return true;
}

SheetCell fillOf(rpc::Mount::Reader mount) {
  auto size = mount.getSize();
  if (size == 0) return {kj::str("-"), Look::kDim};
  // Excludes the space reserved for root, as df(1) does.
  auto used = size - kj::min(size, mount.getFree());
  auto usable = used + mount.getAvailable();
  auto share = usable > 0 ? double(used) / double(usable) : 0;
  return {percent(unsigned(share * 1000)), toneOfShare(share), share};
}

SheetCell diskOf(ShownNode node) {
  SheetCell fullest{kj::str("-"), Look::kDim};
  for (auto mount : node.getMounts()) {
    if (!isDiskFileSystem(mount)) continue;
    auto fill = fillOf(mount);
    if (fill.share > fullest.share) fullest = kj::mv(fill);
  }
  if (isSilent(node)) fullest.look = Look::kDim;
  return fullest;
}

kj::String networkOf(ShownNode node) {
  KJ_IF_MAYBE (sample, newestSample(node)) {
    return kj::str(rate(sample->getNetworkReceived()), " in, ", rate(sample->getNetworkSent()),
                   " out");
  }
  return kj::str("-");
}

SheetCell servicesOf(ShownNode node) {
  if (node.getServices().size() == 0) return {kj::str("-"), Look::kDim};
  size_t all = 0, stopped = 0;
  for (auto service : node.getServices()) {
    auto state = service.getState();
    all += state != rpc::ServiceState::SKIPPED;
    stopped += state == rpc::ServiceState::FINISHED;
  }
  auto ill = illServices(node).size();
  auto look = ill > 0 ? Look::kBad : stopped > 0 ? Look::kWarning : Look::kPlain;
  return {kj::str(all - ill - stopped, "/", all), look};
}

SheetCell podsOf(ShownNode node) {
  size_t pods = 0;
  for (auto container : node.getContainers()) {
    pods += container.getStatus() == "SANDBOX_READY";
  }
  return {node.getContainers().size() == 0 ? kj::str("-") : kj::str(pods)};
}

kj::Maybe<uint64_t> etcdLag(ShownCluster cluster, ShownNode node) {
  auto applied = node.getEtcdMember().getRaftAppliedIndex();
  if (applied == 0) return nullptr;
  uint64_t newest = 0;
  for (auto other : cluster.getNodes()) {
    if (!isSilent(other)) newest = kj::max(newest, other.getEtcdMember().getRaftIndex());
  }
  return newest > applied ? newest - applied : 0;
}

SheetCell etcdOf(ShownCluster cluster, ShownNode node) {
  if (!node.getControlPlane()) return {kj::String()};
  if (isSilent(node)) return {kj::str("-"), Look::kDim};
  auto etcd = node.getEtcd();
  auto member = node.getEtcdMember();
  auto phase = etcd.getPhase();
  if (phase != "member" && phase != "learner") {
    return {kj::str(phase.size() > 0 ? phase : "-"_kj), Look::kWarning};
  }
  bool leads = member.getLeader() != 0 && member.getLeader() == member.getId();
  if (member.getId() != 0 && member.getLeader() == 0) return {kj::str("no leader"), Look::kBad};
  // A smaller lag is normal: some entries are always under way.
  constexpr uint64_t kBehind = 1000;
  auto lag = etcdLag(cluster, node).orDefault(0);
  if (lag >= kBehind) return {kj::str(phase, " -", lag), Look::kWarning};
  return {leads ? kj::str("leader") : kj::str(phase), leads ? Look::kGood : Look::kPlain};
}

bool holds(ShownCluster cluster, ShownNode node, SharedAddress::Reader vip) {
  if (isSilent(node) || vip.getStatus().getState() != "holder") return false;
  for (auto other : cluster.getNodes()) {
    for (auto their : other.getVips()) {
      if (isSilent(other) || their.getAddress() != vip.getAddress()) continue;
      if (their.getStatus().getState() != "holder") continue;
      KJ_IF_MAYBE (since, parseDate(their.getStatus().getSince())) {
        KJ_IF_MAYBE (until, parseDate(vip.getStatus().getLeaseUntil())) {
          if (*until <= *since) return false;
        }
      }
    }
  }
  return true;
}

kj::String vipsOf(ShownCluster cluster, ShownNode node) {
  kj::Vector<kj::String> held;
  for (auto vip : node.getVips()) {
    if (holds(cluster, node, vip)) held.add(kj::str(vip.getAddress()));
  }
  return kj::strArray(held, " ");
}

SheetCell timeSyncOf(ShownNode node) {
  auto time = node.getTime();
  if (time.getSyncDisabled()) return {kj::str("not synchronised, by its config"), Look::kDim};
  if (time.getSynced()) {
    return {kj::str("synchronised with ", time.getServer(), ", offset ", time.getOffset()),
            Look::kGood};
  }
  if (time.getProblem().size() > 0) return {kj::str(time.getProblem()), Look::kBad};
  return {kj::str("not synchronised yet"), Look::kWarning};
}

SheetCell upgradeOf(ShownNode node) {
  auto upgrade = node.getUpgrade();
  auto stage = upgrade.getStage();
  for (auto ended : {""_kj, "none"_kj, "done"_kj, "withdrawn"_kj}) {
    if (stage == ended) return {kj::String()};
  }
  auto reason = upgrade.getReason();
  auto target = upgrade.getTarget();
  return {
      kj::str(stage, target.size() > 0 ? " " : "", target, reason.size() > 0 ? ": " : "", reason),
      stage == "failed" ? Look::kBad : Look::kWarning};
}

kj::String uptimeOf(ShownNode node) {
  if (isSilent(node) || node.getVersion().getUptimeMs() == 0) return kj::str("-");
  auto seconds = int64_t(node.getVersion().getUptimeMs() / 1000);
  constexpr int64_t kDay = 86400, kHour = 3600;
  if (seconds >= 2 * kDay) return kj::str(seconds / kDay, "d");
  if (seconds >= kHour) return kj::str(seconds / kHour, "h", seconds % kHour / 60, "m");
  return humanDuration(seconds);
}

SheetCell serviceHealth(rpc::Service::Reader service) {
  auto health = service.getHealth();
  if (service.getState() != rpc::ServiceState::RUNNING || !service.getChecked()) {
    return {kj::str("-"), Look::kDim};
  }
  if (health.getUnknown()) return {kj::str("not known"), Look::kWarning};
  return health.getHealthy() ? SheetCell{kj::str("OK"), Look::kGood}
                             : SheetCell{kj::str("fails"), Look::kBad};
}

SheetCell untilText(kj::StringPtr taken, kj::StringPtr from, kj::StringPtr until) {
  auto now = parseDate(taken), start = parseDate(from), end = parseDate(until);
  if (now == nullptr || end == nullptr) return {kj::str(until)};
  auto left = (KJ_ASSERT_NONNULL(end) - KJ_ASSERT_NONNULL(now)) / kj::SECONDS;
  constexpr int64_t kDay = 86400;
  auto amount = left < 0 ? -left : left;
  auto text = amount >= 2 * kDay ? kj::str(amount / kDay, "d") : humanDuration(amount / 60 * 60);
  if (left < 0) return {kj::str(text, " ago"), Look::kBad};
  auto life = (KJ_ASSERT_NONNULL(end) - start.orDefault(KJ_ASSERT_NONNULL(now))) / kj::SECONDS;
  bool late = left * 10 < life;
  return {kj::str("in ", text), late ? Look::kWarning : Look::kPlain};
}

}  // namespace talos::talosctl::dashboard
