#include "tests/cluster/changes.h"

namespace talos::changes {

// --- parts of patches

std::string document(const std::string& kind, const std::string& rest) {
  return "apiVersion: v1alpha1\nkind: " + kind + "\n" + rest;
}

std::string ofLink(const Place& place, const std::string& rest) {
  return "machine: {network: {interfaces: [{interface: eth0, ignore: false, cidr: " +
         place.address + "/24, " + rest + "}]}}";
}

std::string ofEtcd(const std::string& argument, const std::string& value) {
  return "cluster: {etcd: {extraArgs: {" + argument + ": \"" + value + "\"}}}";
}

std::string blocked(const std::string& rules) {
  auto text = document("NetworkDefaultActionConfig", "ingress: block\n");
  return rules.empty() ? text : text + "---\n" + rules;
}

std::string rule(const std::string& name, const std::string& ports, const std::string& from) {
  return document("NetworkRuleConfig", "name: " + name + "\nportSelector: {ports: [" + ports +
                                           "], protocol: tcp}\ningress: [{subnet: " + from +
                                           "}]\n");
}

// --- kinds and ways

std::vector<const Kind*> kindsOn(unsigned nodes, bool harmful) {
  std::vector<const Kind*> found;
  for (auto& kind : harmful ? harmfulKinds() : goodKinds()) {
    if ((kind.on & nodes) != 0) found.push_back(&kind);
  }
  return found;
}

// Without a client that calls again, a node that is cut off keeps its config.
Way drawWay(Draw& draw, const Change& change) {
  constexpr const char *kAtOnce[] = {"no-reboot", "no-reboot", "auto", "auto", "reboot"},
                       *kLater[] = {"reboot", "reboot", "auto"};
  std::string mode = change.reboots ? draw.oneOf(kLater) : draw.oneOf(kAtOnce);
  if (draw.chance(15) && !change.cutsOff) mode = "staged";
  // With auto the node does not know whether the client follows its reboot.
  if (change.cutsOff && change.reboots) mode = "reboot";
  return {mode, (change.cutsOff && mode == "reboot") || draw.chance(50)};
}

}  // namespace talos::changes
