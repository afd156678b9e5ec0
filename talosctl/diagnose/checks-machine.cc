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
  bool expired = notAfter != 0 && now > notAfter;
  bool early = notAfter != 0 && now < notBefore && cluster.getEndpoints().size() > 0;
  if (!expired && !early) return;
  findings
      .add(expired ? Illness::kClientCertificateExpired : Illness::kClientCertificateNotYetValid)
      .with("validity", validity(notBefore, notAfter))
      .with("today", dayOf(now));
}

Illness endpointIllness(rpc::Observations::Endpoint::Reader endpoint) {
  if (endpoint.getMaintenance()) return Illness::kEndpointMaintenance;
  switch (failureOf(endpoint.getError())) {
    case FailureKind::kCertificate:
      return Illness::kEndpointUntrusted;
    case FailureKind::kUnknownName:
    case FailureKind::kNoNameServer:
      return Illness::kEndpointUnknown;
    case FailureKind::kRefused:
      return Illness::kEndpointRefuses;
    default:
      return Illness::kEndpointSilent;
  }
}

kj::Maybe<Illness> reachIllness(ObservedNode node) {
  switch (node.getReach()) {
    case Reach::SILENT:
      return failureOf(node.getError()) == FailureKind::kRefused ? Illness::kNodeRefuses
                                                                 : Illness::kNodeSilent;
    case Reach::REFUSED:
      return Illness::kNodeUntrusted;
    case Reach::MAINTENANCE:
      return Illness::kNodeMaintenance;
    default:
      return nullptr;
  }
}

void checkReach(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  KJ_IF_MAYBE (illness, reachIllness(node)) {
    auto& finding = findings.add(*illness, node).with("error", node.getError());
    if (node.getReach() != Reach::SILENT) return;
    for (auto one : cluster.getSurvey().getNodes()) {
      if (one.getReady() || !lists(one.getAddresses(), node.getAddress())) continue;
      finding.shows(kj::str("kubectl get node ", one.getName()),
                    reasonText(one.getReason(), one.getMessage()), one.getSince() * kSecondNs);
    }
  }
}

void checkBoot(ObservedNode node, Findings& findings) {
  for (auto volume : node.getVolumes()) {
    if (volume.getStatus().getPhase() != "failed") continue;
    findings.add(Illness::kVolumeFailed, node)
        .with("label", volume.getLabel())
        .with("error", volume.getStatus().getErrorMessage());
  }
  kj::Vector<kj::String> others;  // problems that no other check reports with its remedy
  for (auto problem : node.getStatus().getProblems()) {
    bool known =
        problem.startsWith(messages::kNetworkProblem) || problem.startsWith(messages::kNoNode);
    if (!known) others.add(kj::str(problem));
  }
  auto problems = kj::strArray(others, "; ");
  bool failed = node.getStatus().getStage() == rpc::Status::Stage::FAILED;
  if (answers(node) && (failed || problems.size() > 0)) {
    findings.add(failed ? Illness::kBootFailed : Illness::kBootBlocked, node)
        .with("problems", problems);
  }
  auto upgrade = node.getUpgrade();
  if (upgrade.getStage() == "failed") {
    findings.add(Illness::kUpgradeFailed, node)
        .with("version", upgrade.getVersion())
        .with("image", upgrade.getImage())
        .with("error", upgrade.getReason());
  }
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
  for (auto endpoint : cluster.getEndpoints()) {
    findings.add(endpointIllness(endpoint))
        .with("host", endpoint.getHost())
        .with("error", endpoint.getError());
  }
  for (auto node : cluster.getNodes()) {
    checkReach(cluster, node, findings);
    checkBoot(node, findings);
    checkDisk(node, findings);
    checkFirmware(node, findings);
    checkLandlock(node, findings);
  }
  checkHostnames(cluster, findings);
}

}  // namespace talos::talosctl
