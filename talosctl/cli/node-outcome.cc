#include "talosctl/cli/node-outcome.h"

#include <kj/vector.h>

#include "common/base/version.h"

namespace talos::talosctl {

namespace {

bool isUp(rpc::Service::Reader service) {
  switch (service.getState()) {
    case rpc::ServiceState::RUNNING:
      return service.getHealth().getUnknown() ? !service.getChecked()
                                              : service.getHealth().getHealthy();
    case rpc::ServiceState::FINISHED:
    case rpc::ServiceState::SKIPPED:
      return true;
    default:
      return false;
  }
}

// Returns true for a service without which a node counts as up: before the bootstrap, etcd and vipd
// of a control-plane node; on any node, the kubelet, whose image may not be available anywhere yet.
// `health` checks Kubernetes.
bool waitsForCluster(rpc::Service::Reader service) {
  auto events = service.getEvents();
  bool etcdWaits = service.getState() == rpc::ServiceState::PREPARING && events.size() > 0 &&
                   events[events.size() - 1].getMessage().startsWith("Waiting for a cluster");
  return service.getId() == "kubelet" || (service.getId() == "etcd" && etcdWaits) ||
         (service.getId() == "vipd" && service.getState() == rpc::ServiceState::WAITING);
}

kj::String goingDown(rpc::Status::Reader status) {
  if (status.getSequence().size() == 0) return kj::str("stopping");
  if (status.getPhase().size() == 0) return kj::str(status.getSequence());
  return kj::str(status.getSequence(), ": ", status.getPhase());
}

}  // namespace

kj::StringPtr Outcome::arrived() const {
  return kind == Kind::kBoot ? "booted"_kj : "rebooted"_kj;
}

Judgement Outcome::answered(rpc::Version::Reader version, rpc::Status::Reader status,
                            capnp::List<rpc::Service>::Reader services) {
  missedAnswers = 0;
  if (version.getBootId() == bootId) return {Verdict::kWait, goingDown(status)};
  if (kind == Kind::kShutdown)
    return {Verdict::kFailed, kj::str("started again instead of staying off")};
  switch (status.getStage()) {
    case rpc::Status::Stage::FAILED:
      return {
          Verdict::kFailed,
          kj::str(arrived(), ", but the boot failed: ", kj::strArray(status.getProblems(), "; "))};
    case rpc::Status::Stage::MAINTENANCE:
      return {Verdict::kDone, kj::str(arrived(), ", waiting for a machine config")};
    case rpc::Status::Stage::RUNNING:
      break;
    default:
      return {Verdict::kWait,
              kj::str("booting", status.getPhase().size() > 0 ? ": " : "", status.getPhase())};
  }
  if (version.getTag().endsWith(kj::str("(", kNotAuthenticated, ")"))) {
    return {Verdict::kWait, kj::str("waiting for its certificate")};
  }
  kj::Vector<kj::StringPtr> missing;
  for (auto service : services) {
    if (!isUp(service) && !waitsForCluster(service)) missing.add(service.getId());
  }
  if (missing.size() > 0)
    return {Verdict::kWait, kj::str("waiting for services: ", kj::strArray(missing, ", "))};
  return {Verdict::kDone, kj::str(arrived(), ", all services are up")};
}

Judgement Outcome::silent() {
  ++missedAnswers;
  if (missedAnswers >= kGone) {
    if (kind == Kind::kShutdown) return {Verdict::kDone, kj::str("shut down")};
    if (kind == Kind::kReset) return {Verdict::kDone, kj::str("down, to start without its config")};
  }
  return {Verdict::kWait, kj::str("no answer")};
}

Judgement judgeUpgrade(kj::StringPtr before, kj::StringPtr bootId,
                       rpc::UpgradeStatusSpec::Reader status, bool live) {
  auto stage = status.getStage();
  bool isOver = live || bootId != before;
  auto running = kj::str("slot ", status.getSlot(), " (", status.getVersion(), ")");
  if (stage == "failed") {
    return {
        Verdict::kFailed,
        kj::str(status.getReason(), bootId == before ? "; still running " : "; back on ", running)};
  }
  if (stage == "withdrawn") return {Verdict::kFailed, kj::str(status.getReason())};
  if (stage == "staged") {
    return {Verdict::kDone, kj::str("staged: ", status.getReason(), "; running ", running)};
  }
  if (stage == "done" && isOver && status.getReason().size() > 0) {
    return {Verdict::kDone, kj::str("running ", running, ", ", status.getReason())};
  }
  if (stage == "done" && isOver) {
    return {Verdict::kDone, kj::str("running ", running, ", healthy and confirmed")};
  }
  if (stage == "trying") {
    return {Verdict::kWait, kj::str("trying ", running, status.getReason().size() > 0 ? ": " : "",
                                    status.getReason())};
  }
  if (stage == "fetching") return {Verdict::kWait, kj::str("fetching ", status.getImage())};
  if (stage == "writing")
    return {Verdict::kWait, status.getReason().size() > 0 ? kj::str(status.getReason())
                                                          : kj::str("writing to the other slot")};
  if (stage == "switching") return {Verdict::kWait, kj::str("switching to the other slot")};
  if (bootId != before) return {Verdict::kWait, kj::str("booting ", running)};
  return {Verdict::kWait, kj::str("rebooting")};
}

}  // namespace talos::talosctl
