// The way to a node, its config, its boot and its disks.
#include <string.h>

#include "common/base/date.h"
#include "talosctl/cli/table.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kLeastRoom = 64u << 20;  // what etcd needs to go on

kj::String dayOf(int64_t seconds) {
  return dateText(kj::UNIX_EPOCH + seconds * kj::SECONDS);
}

}  // namespace

void checkClientCertificate(Seen seen, Report& report) {
  if (seen.getClientNotAfter() == 0) return;
  auto now = seen.getNow() / kSecondNs;
  auto valid = kj::str("valid from ", dayOf(seen.getClientNotBefore()), " until ",
                       dayOf(seen.getClientNotAfter()), "; the clock here shows ", dayOf(now));
  if (now > seen.getClientNotAfter()) {
    report.certain(kj::str("the client certificate of the talosconfig has expired"))
        .shows("talosconfig", valid)
        .mend(kj::str("talosctl gen config --with-secrets secrets.yaml --output-dir <new folder> "
                      "<cluster name> <endpoint>    # its talosconfig"));
  } else if (now < seen.getClientNotBefore() && seen.getEndpoints().size() > 0) {
    report
        .likely(kj::str("the client certificate of the talosconfig is not yet valid: the clock "
                        "of this host is wrong, or that of the host that issued it was"))
        .shows("talosconfig", valid);
  }
}

void checkEndpoints(Seen seen, Report& report) {
  for (auto endpoint : seen.getEndpoints()) {
    auto host = endpoint.getHost();
    if (endpoint.getMaintenance()) {
      report
          .certain(
              kj::str("the node at endpoint ", host, " has no config: it is in maintenance mode"))
          .shows(kj::str("talosctl -n ", host, " version --insecure"), endpoint.getWhy())
          .mend(kj::str("talosctl apply-config --insecure -n ", host, " -f controlplane.yaml"));
      continue;
    }
    auto source = kj::str("talosctl -e ", host, " -n ", host, " version");
    switch (failureOf(endpoint.getWhy())) {
      case DialFailure::kCertificate:
        report
            .certain(
                kj::str("the endpoint ", host,
                        " and the talosconfig do not trust each other: "
                        "they are of different clusters, or a certificate is out of its times"))
            .shows(source, endpoint.getWhy())
            .mend(kj::str("talosctl config merge <the talosconfig of this cluster>"));
        break;
      case DialFailure::kUnknownName:
      case DialFailure::kNoNameServer:
        report.certain(kj::str("the name of endpoint ", host, " cannot be resolved here"))
            .shows(source, endpoint.getWhy())
            .mend(kj::str("talosctl config endpoint <address of a control-plane node>"));
        break;
      case DialFailure::kRefused:
        report
            .certain(kj::str("the endpoint ", host,
                             " is up, but nothing listens on its port "
                             "50000: apid does not run there yet, or it is no node"))
            .shows(source, endpoint.getWhy());
        break;
      default:
        report
            .likely(kj::str("the endpoint ", host,
                            " does not answer: it is down, or a firewall or "
                            "the network between is in the way"))
            .shows(source, endpoint.getWhy());
    }
  }
}

void checkNodeDown(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    if (node.getReach() != Reach::SILENT) continue;
    auto failure = failureOf(node.getWhy());
    auto& finding =
        failure == DialFailure::kRefused
            ? report.certain(node, kj::str("the node is up, but its apid does not listen"))
            : report.likely(node, kj::str("the node does not answer: it is down, or cut off from "
                                          "the others"));
    finding.shows(node, "version", node.getWhy());
    for (auto one : seen.getSurvey().getNodes()) {
      for (auto address : one.getAddresses()) {
        if (address != node.getAddress() || one.getReady()) continue;
        finding.shows(kj::str("kubectl get node ", one.getName()),
                      kj::str(one.getReason(), ": ", one.getMessage()),
                      static_cast<uint64_t>(one.getSince()) * kSecondNs);
      }
    }
    finding.mend(failure == DialFailure::kRefused
                     ? kj::str("look at its console: apid starts when the node has its config")
                     : kj::str("start it, and look at its console and its network"));
  }
}

void checkNodeCertificate(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    if (node.getReach() != Reach::REFUSED) continue;
    report
        .certain(node,
                 kj::str("its certificate and that of the endpoint are not of one CA, or out "
                         "of their times: its config is of another cluster, or a clock is wrong"))
        .shows(node, "version", node.getWhy())
        .mend(kj::str("compare machine.ca of its config with that of the control plane; talosctl "
                      "apply-config with the right one"));
  }
}

void checkMaintenance(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    if (node.getReach() != Reach::MAINTENANCE) continue;
    report.certain(node, kj::str("the node has no config: it is in maintenance mode"))
        .shows(kj::str("talosctl -n ", node.getAddress(), " version --insecure"), node.getWhy())
        .mend(
            kj::str("talosctl apply-config --insecure -n ", node.getAddress(), " -f <its config>"));
  }
}

void checkVolumes(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    for (auto volume : node.getVolumes()) {
      if (volume.getStatus().getPhase() != "failed") continue;
      report.certain(node, kj::str("the partition ", volume.getLabel(), " cannot be used"))
          .shows(node, "get volumestatus", volume.getStatus().getErrorMessage());
    }
  }
}

void checkBoot(Seen seen, Report& report) {
  using Stage = rpc::Status::Stage;
  for (auto node : seen.getNodes()) {
    if (!answers(node) || !node.hasStatus()) continue;
    auto status = node.getStatus();
    auto why = kj::strArray(status.getProblems(), "; ");
    if (status.getStage() == Stage::FAILED) {
      report.certain(node, kj::str("the boot has failed"))
          .shows(node, "status", why)
          .mend(node, "logs machined");
    } else if (why.size() > 0) {
      report.likely(node, kj::str("the node cannot go on"))
          .shows(node, "status", why)
          .mend(node, "logs machined");
    }
  }
}

void checkUpgrade(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    auto upgrade = node.getUpgrade();
    if (upgrade.getStage() != "failed") continue;
    report
        .certain(node,
                 kj::str("the newest upgrade has failed; the node runs ", upgrade.getVersion()))
        .shows(node, "get upgradestatus", upgrade.getReason())
        .mend(node, kj::str("upgrade --image ", upgrade.getImage()));
  }
}

void checkHostnames(Seen seen, Report& report) {
  auto nodes = seen.getNodes();
  for (auto i : kj::indices(nodes)) {
    for (size_t j = 0; j < i; ++j) {
      auto name = nodes[i].getHostname();
      if (name.size() == 0 || name != nodes[j].getHostname()) continue;
      auto& finding = report.certain(
          nodes[i], kj::str("two nodes have the host name ", name, ", which must be unique"));
      finding.nodes.add(kj::str(nodes[j].getAddress()));
      finding.shows(nodes[j], "get hostname", name)
          .shows(nodes[i], "get hostname", name)
          .mend(setInConfig(nodes[i], "/machine/network/hostname", "\"<another name>\""));
    }
  }
}

void checkDisks(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    for (auto mount : node.getMounts()) {
      // Of a node in a container /var is a folder of the host's disk, and no mount of its own.
      if (mount.getMountedOn() != "/var" || mount.getSize() == 0) continue;
      auto left = mount.getAvailable();
      bool full = left < kLeastRoom || left < mount.getSize() / 100;
      if (!full && left >= mount.getSize() / 20) continue;
      auto text = kj::str(mount.getFilesystem(), " on /var: ", humanSize(left), " left of ",
                          humanSize(mount.getSize()));
      auto& finding =
          full ? report.certain(node, kj::str("the data disk (EPHEMERAL) is full"))
               : report.likely(node, kj::str("the data disk (EPHEMERAL) is nearly full"));
      finding.shows(node, "mounts", text).mend(node, "usage /var --depth 3 --threshold 100000000");
    }
  }
}

}  // namespace talos::talosctl
