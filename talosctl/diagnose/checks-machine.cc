// Checks the access to the nodes, their boot and their disks.
#include "common/base/node-messages.h"
#include "common/text/size.h"
#include "talosctl/diagnose/missing-firmware.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr uint64_t kLeastSpace = 64u << 20;  // space that etcd needs to continue

void checkClientCertificate(ObservedCluster cluster, Findings& findings) {
  auto notBefore = cluster.getClientNotBefore(), notAfter = cluster.getClientNotAfter();
  auto now = cluster.getNow() / kSecondNs;
  bool expired = notAfter != 0 && now >= notAfter;  // as OpenSSL judges
  bool early = notAfter != 0 && now < notBefore && cluster.getEndpoints().size() > 0;
  if (!expired && !early) return;
  findings
      .add(expired ? Illness::kClientCertificateExpired : Illness::kClientCertificateNotYetValid)
      .with("validity", validity(notBefore, notAfter))
      .with("today", dayOf(now));
}

// A server refuses the client's certificate with a TLS alert.
bool refusesClient(kj::StringPtr error) {
  return hasAny(error, {"alert unknown ca", "alert handshake failure"});
}

Illness endpointIllness(rpc::Observations::Endpoint::Reader endpoint) {
  if (endpoint.getMaintenance()) return Illness::kEndpointMaintenance;
  switch (failureOf(endpoint.getError())) {
    case FailureKind::kCertificate:
      if (endpoint.getContexts().size() > 0) return Illness::kEndpointOtherContext;
      return refusesClient(endpoint.getError()) ? Illness::kClientOfOtherCluster
                                                : Illness::kEndpointOtherCluster;
    case FailureKind::kCertificateTime:
      return Illness::kEndpointTimes;
    case FailureKind::kCertificateName:
      return Illness::kEndpointName;
    case FailureKind::kUnknownName:
      return Illness::kEndpointUnknown;
    case FailureKind::kNoNameServer:
      return Illness::kEndpointNoNameServer;
    case FailureKind::kRefused:
      return Illness::kEndpointRefuses;
    case FailureKind::kNoTls:
      return Illness::kEndpointNoTls;
    case FailureKind::kClosed:
      return Illness::kEndpointCloses;
    case FailureKind::kUnreachable:
      return Illness::kEndpointNoRoute;
    default:
      return Illness::kEndpointSilent;
  }
}

// Returns the other contexts of a talosconfig as a text: "b", or "b, c".
kj::String contextsText(capnp::List<capnp::Text>::Reader contexts) {
  return kj::strArray(contexts, ", ");
}

kj::String authorityText(ObservedCluster cluster) {
  auto hash = cluster.getClientCaHash();
  return hash.size() == 0 ? kj::String() : kj::str("ca of the context: ", hash);
}

void checkEndpoints(ObservedCluster cluster, Findings& findings) {
  for (auto endpoint : cluster.getEndpoints()) {
    findings.add(endpointIllness(endpoint))
        .with("host", endpoint.getHost())
        .with("error", endpoint.getError())
        .with("context", contextsText(endpoint.getContexts()))
        .with("authority", authorityText(cluster));
  }
}

Illness silentIllness(kj::StringPtr error) {
  if (has(error, "is a worker, which does not forward")) return Illness::kEndpointIsWorker;
  if (has(error, messages::kNeedsRole)) return Illness::kNodeDenied;
  auto failure = failureOf(error);
  if (isNameFailure(failure)) return Illness::kNodeNameUnknown;
  return failure == FailureKind::kRefused       ? Illness::kNodeRefuses
         : failure == FailureKind::kUnreachable ? Illness::kNodeNoRoute
                                                : Illness::kNodeSilent;
}

Illness refusedIllness(ObservedNode node) {
  switch (failureOf(node.getError())) {
    case FailureKind::kCertificateTime:
      return Illness::kNodeTimes;
    case FailureKind::kCertificateName:
      return Illness::kNodeName;
    default:
      return node.getContexts().size() > 0 ? Illness::kNodeOfOtherContext
                                           : Illness::kNodeOfOtherCluster;
  }
}

kj::Maybe<Illness> reachIllness(ObservedNode node) {
  switch (node.getReach()) {
    case Reach::SILENT:
      return silentIllness(node.getError());
    case Reach::REFUSED:
      return refusedIllness(node);
    case Reach::MAINTENANCE:
      return Illness::kNodeMaintenance;
    default:
      return nullptr;
  }
}

void checkReach(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  KJ_IF_MAYBE (illness, reachIllness(node)) {
    auto& finding = findings.add(*illness, node)
                        .with("error", node.getError())
                        .with("context", contextsText(node.getContexts()))
                        .with("authority", authorityText(cluster));
    if (node.getReach() != Reach::SILENT) return;
    for (auto one : cluster.getSurvey().getNodes()) {
      if (one.getReady() || !lists(one.getAddresses(), node.getAddress())) continue;
      finding.shows(kj::str("kubectl get node ", one.getName()),
                    reasonText(one.getReason(), one.getMessage()), one.getSince() * kSecondNs);
    }
  }
}

Illness volumeIllness(kj::StringPtr error) {
  if (has(error, messages::kNoKeyOpens)) return Illness::kVolumeLocked;
  return has(error, "has no readable file system") ? Illness::kVolumeUnreadable
                                                   : Illness::kVolumeFailed;
}

void checkVolumes(ObservedNode node, Findings& findings) {
  for (auto volume : node.getVolumes()) {
    auto error = volume.getStatus().getErrorMessage();
    if (volume.getStatus().getPhase() != "failed") continue;
    findings.add(volumeIllness(error), node).with("label", volume.getLabel()).with("error", error);
  }
}

// Returns true for a problem that another check reports with its remedy: of the network, of a Node
// that does not exist, or of a service, such as "service kubelet is stopped: …".
bool isReportedElsewhere(ObservedNode node, kj::StringPtr problem) {
  if (problem.startsWith(messages::kNetworkProblem) || problem.startsWith(messages::kNoNode)) {
    return true;
  }
  for (auto service : node.getServices()) {
    if (problem.startsWith(kj::str("service ", service.getId(), " "))) return true;
  }
  return false;
}

void checkBoot(ObservedNode node, Findings& findings) {
  kj::Vector<kj::StringPtr> problems, notInEffect;
  for (auto problem : node.getStatus().getProblems()) {
    if (problem.startsWith(messages::kNotInEffect)) {
      // The check of overlapping networks has the cause.
      if (has(problem, ": cluster.etcd") && hasAddressOfThePods(node)) continue;
      notInEffect.add(problem);
    } else if (!isReportedElsewhere(node, problem)) {
      problems.add(problem);
    }
  }
  bool failed = node.getStatus().getStage() == rpc::Status::Stage::FAILED;
  if (answers(node) && (failed || problems.size() > 0)) {
    findings.add(failed ? Illness::kBootFailed : Illness::kBootBlocked, node)
        .with("problems", kj::strArray(problems, "; "));
  }
  if (answers(node) && notInEffect.size() > 0) {
    findings.add(Illness::kNotInEffect, node).with("problems", kj::strArray(notInEffect, "; "));
  }
}

// Distinguishes a system that was tried, and would end in the same way again, from an upgrade that
// did not come so far.
Illness upgradeIllness(rpc::UpgradeStatusSpec::Reader upgrade) {
  auto reason = upgrade.getReason();
  bool isRollback = upgrade.getImage().size() == 0;
  if (!isRollback && has(reason, " did not come up: ")) return Illness::kUpgradeNotStarted;
  if (hasAny(reason, {" was given up: ", " was started and ended before it was healthy",
                      "was not healthy", "its boot failed"})) {
    return Illness::kUpgradeGivenUp;
  }
  return isRollback ? Illness::kRollbackFailed : Illness::kUpgradeFailed;
}

void checkUpgrade(ObservedNode node, Findings& findings) {
  auto upgrade = node.getUpgrade();
  if (upgrade.getStage() != "failed") return;
  findings.add(upgradeIllness(upgrade), node)
      .with("version", upgrade.getVersion())
      .with("image", upgrade.getImage())
      .with("error", upgrade.getReason());
}

// Checks the space of /var. On a node in a container, /var is a folder of the host's disk, not a
// separate mount.
void checkDisk(ObservedNode node, Findings& findings) {
  for (auto mount : node.getMounts()) {
    auto left = mount.getAvailable(), size = mount.getSize();
    if (mount.getMountedOn() != "/var" || left >= kj::max(size / 20, kLeastSpace) || size == 0) {
      continue;
    }
    bool full = left < kLeastSpace || left < size / 100;
    findings.add(full ? Illness::kDiskFull : Illness::kDiskNearlyFull, node)
        .with("space", kj::str(mount.getFilesystem(), " on /var: ", decimalSize(left), " left of ",
                               decimalSize(size)));
  }
}

// Returns true if the cluster knows this node by this name: as a member of etcd, or in Kubernetes.
// There, a node that takes the name of another node takes its object at once, but not its
// addresses.
bool hasNameIn(ObservedCluster cluster, ObservedNode node, kj::StringPtr name) {
  auto host = kj::str("//", node.getAddress(), ":");
  for (auto one : cluster.getNodes()) {
    for (auto member : one.getMembers()) {
      if (member.getName() != name) continue;
      for (auto url : member.getPeerUrls()) {
        if (has(url, host)) return true;
      }
    }
  }
  for (auto one : cluster.getSurvey().getNodes()) {
    if (one.getName() != name) continue;
    for (auto address : one.getAddresses()) {
      if (address == node.getAddress()) return true;
    }
  }
  return false;
}

void checkHostnames(ObservedCluster cluster, Findings& findings) {
  auto nodes = cluster.getNodes();
  for (auto i : kj::indices(nodes)) {
    for (size_t j = 0; j < i; ++j) {
      auto name = nodes[i].getHostname();
      if (name.size() == 0 || name != nodes[j].getHostname()) continue;
      bool first = hasNameIn(cluster, nodes[j], name), second = hasNameIn(cluster, nodes[i], name);
      auto renamed = second && !first ? nodes[j] : nodes[i];
      auto kept = second && !first ? nodes[i] : nodes[j];
      auto& finding = findings.add(Illness::kHostnameDuplicate, renamed)
                          .on(kept.getAddress())
                          .with("hostname", name)
                          .with("other", kept.getAddress());
      if (first == second) {
        finding.useRemedy(
            "rename the one that got the name later: talosctl -n {node}, or -n {other}, patch "
            "machineconfig --mode=no-reboot -p '[{\"op\": \"add\", \"path\": "
            "\"/machine/network/hostname\", \"value\": \"<another name>\"}]'");
      }
    }
  }
}

}  // namespace

// Returns "link eth0", or for a device without a link its location: "device 0000:03:00.0".
kj::String deviceText(ObservedNode node, kj::StringPtr device) {
  for (auto link : node.getLinks()) {
    if (link.getStatus().getBusPath() == device) return kj::str("link ", link.getName());
  }
  return kj::str("device ", device);
}

void checkFirmware(ObservedNode node, Findings& findings) {
  for (auto& missing : missingFirmware(linesOfLog(node, kKernelLog))) {
    auto package = firmwarePackage(missing.files[0]);
    auto illness = package.size() > 0 ? Illness::kFirmwareMissing : Illness::kFirmwareUnknown;
    auto& finding = findings.add(illness, node)
                        .with("driver", missing.driver)
                        .with("device", deviceText(node, missing.device))
                        .with("file", kj::strArray(missing.files, ", "))
                        .with("package", package);
    for (auto line : missing.lines) {
      finding.shows(kj::str("talosctl -n ", node.getAddress(), " dmesg"), line);
    }
  }
}

// Ignores nodes of earlier versions, which do not report Landlock, and an old Landlock, which is no
// fault: `get securitystate` shows what it cannot restrict.
void checkLandlock(ObservedNode node, Findings& findings) {
  auto security = node.getSecurity();
  if (security.getLandlock() != 0 || security.getUnrestricted().size() == 0) return;
  findings.add(Illness::kLandlockMissing, node)
      .with("version", "0")
      .with("unrestricted", kj::strArray(security.getUnrestricted(), "; "));
}

void checkMachines(ObservedCluster cluster, Findings& findings) {
  checkClientCertificate(cluster, findings);
  checkEndpoints(cluster, findings);
  for (auto node : cluster.getNodes()) {
    checkReach(cluster, node, findings);
    checkVolumes(node, findings);
    checkBoot(node, findings);
    checkUpgrade(node, findings);
    checkDisk(node, findings);
    checkFirmware(node, findings);
    checkLandlock(node, findings);
  }
  checkHostnames(cluster, findings);
}

}  // namespace talos::talosctl
