#include "tests/cluster/fact-checks.h"

#include <ctype.h>
#include <kj/debug.h>

#include <algorithm>
#include <map>
#include <regex>

#include "tests/harness/process.h"
#include "tests/published/kernel-network.h"

namespace talos::published {
namespace {

using harness::contains;
using harness::lines;

constexpr size_t kShown = 400;  // characters of what the node has

// Returns an empty text if the fact holds, else a part of the node's own text.
std::string unless(bool holds, const std::string& there) {
  if (holds) return "";
  return there.empty() ? "nothing" : there.substr(0, kShown);
}

std::string trimmed(std::string text) {
  while (!text.empty() && isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  parts.erase(std::remove(parts.begin(), parts.end(), ""), parts.end());
  return parts;
}

std::string ofLink(const FactContext& context, const std::string& link, const std::string& file) {
  return trimmed(context.node.read("/sys/class/net/" + link + "/" + file));
}

std::string hasText(const std::string& text, const std::string& part) {
  return unless(contains(text, part), text);
}

std::string hasLine(const std::string& text, const std::string& line) {
  auto all = lines(text);
  return unless(std::find(all.begin(), all.end(), line) != all.end(), text);
}

// --- links -------------------------------------------------------------------------------------

std::string bond(const FactContext& context, const Fact& fact) {
  auto file = [&](const std::string& name) {
    return ofLink(context, fact.words[1], "bonding/" + name);
  };
  auto wanted = fact.option("links", 2) == "-" ? std::vector<std::string>()
                                               : split(fact.option("links", 2), ',');
  auto members = split(file("slaves"), ' ');
  std::sort(wanted.begin(), wanted.end());
  std::sort(members.begin(), members.end());
  if (members != wanted) return "links: " + file("slaves");
  for (size_t i = 2; i + 1 < fact.words.size(); i += 2) {
    auto& name = fact.words[i];
    // Such a file has the option's name and number, or its number alone.
    if (name == "links") continue;
    auto there = file(name);
    if (there != fact.words[i + 1] && !there.starts_with(fact.words[i + 1] + " "))
      return name + ": " + (there.empty() ? "nothing" : there);
  }
  return "";
}

std::string vlan(const FactContext& context, const Fact& fact) {
  auto text = context.node.read("/proc/net/vlan/config");
  std::regex row(fact.words[1] + "\\s*\\|\\s*" + fact.option("id", 2) + "\\s*\\|\\s*" +
                 fact.option("parent", 2) + "\\s*");
  auto all = lines(text);
  return unless(
      std::any_of(all.begin(), all.end(), [&](auto& line) { return std::regex_match(line, row); }),
      text);
}

std::string bridge(const FactContext& context, const Fact& fact) {
  for (auto& link : split(fact.option("links", 2), ',')) {
    auto master = ofLink(context, link, "master/uevent");
    if (!contains(master + "\n", "INTERFACE=" + fact.words[1] + "\n"))
      return unless(false, "the master of " + link + " is " + master);
  }
  auto stp = fact.option("stp", 2);
  auto there = ofLink(context, fact.words[1], "bridge/stp_state");
  return unless(stp.empty() || stp == there, "stp: " + there);
}

std::string wireguard(const FactContext& context, const Fact& fact) {
  auto kind = ofLink(context, fact.words[1], "uevent");
  if (!contains(kind, "DEVTYPE=wireguard")) return unless(false, kind);
  auto sockets = context.node.read("/proc/net/udp");
  auto port = std::stoi(fact.option("port", 2));
  if (!hasSocket(sockets, Protocol::kUdp, "0.0.0.0", port)) return "no socket at the port";
  auto mark = fact.option("mark", 2);
  return mark.empty() ? ""
                      : hasText(context.node.get("linkstatuses"), "firewallMark: " + mark + "\n");
}

std::string peer(const FactContext& context, const Fact& fact) {
  auto link = context.node.talosctl({"get", "link", fact.words[1], "-o", "yaml"}).out;
  auto keepalive = fact.option("keepalive", 3), allowed = fact.option("allowed", 3);
  bool holds =
      contains(link, fact.words[2]) && contains(link, allowed) &&
      (keepalive.empty() || contains(link, "persistentKeepaliveInterval: " + keepalive + "\n"));
  auto peers = link.find("wireguard:");
  return unless(holds, peers == std::string::npos ? link : link.substr(peers));
}

std::string mtu(const FactContext& context, const Fact& fact) {
  auto there = ofLink(context, fact.words[1], "mtu");
  return unless(there == fact.words[2], there);
}

// --- addresses, routes, sockets ----------------------------------------------------------------

std::string address(const FactContext& context, const Fact& fact) {
  auto& cidr = fact.words[2];
  if (contains(cidr, ":")) {
    auto text = context.node.read("/proc/net/if_inet6");
    return unless(hasAddress6(text, fact.words[1], cidr), text);
  }
  auto local = context.node.read("/proc/net/fib_trie");
  auto routes = context.node.read("/proc/net/route");
  return unless(hasAddress4(local, routes, fact.words[1], cidr), shownRoutes(routes));
}

std::string route(const FactContext& context, const Fact& fact) {
  auto destination = fact.words[1];
  Route wanted{destination, fact.option("via", 2), fact.option("dev", 2), fact.option("metric", 2)};
  if (contains(wanted.gateway, ":")) {
    auto text = context.node.read("/proc/net/ipv6_route");
    return unless(hasRoute6(text, wanted), text);
  }
  auto text = context.node.read("/proc/net/route");
  return unless(hasRoute4(text, wanted), shownRoutes(text));
}

std::string listen(const FactContext& context, const Fact& fact) {
  auto protocol = fact.words[1] == "tcp" ? Protocol::kTcp : Protocol::kUdp;
  auto colon = fact.words[2].rfind(':');
  auto text = context.node.read("/proc/net/" + fact.words[1]);
  return unless(hasSocket(text, protocol, fact.words[2].substr(0, colon),
                          std::stoi(fact.words[2].substr(colon + 1))),
                "no such socket");
}

// The spec says which link is to have the address; the node must not have it yet.
std::string vip(const FactContext& context, const Fact& fact) {
  auto specs = context.node.get("vipspecs");
  if (!contains(specs, "id: " + fact.words[1] + "\n") ||
      !contains(specs, "linkName: " + fact.option("link", 2) + "\n"))
    return unless(false, specs);
  bool held = isLocal4(context.node.read("/proc/net/fib_trie"), fact.words[1]);
  return unless(!held, "the node has the address, though etcd does not run");
}

// --- files -------------------------------------------------------------------------------------

std::string resolver(const FactContext& context, const Fact& fact) {
  auto text = context.node.read("/etc/resolv.conf");
  if (fact.kind() == "nameserver") return hasLine(text, "nameserver " + fact.words[1]);
  for (auto& line : lines(text)) {
    auto names = split(line, ' ');
    if (!names.empty() && names[0] == "search" &&
        std::find(names.begin() + 1, names.end(), fact.words[1]) != names.end())
      return "";
  }
  return unless(false, text);
}

std::string host(const FactContext& context, const Fact& fact) {
  auto text = context.node.read("/etc/hosts");
  return hasLine(text, fact.after(1));
}

std::string hostname(const FactContext& context, const Fact& fact) {
  auto there = trimmed(context.node.read("/proc/sys/kernel/hostname"));
  return unless(there == fact.words[1], there);
}

std::string sysctl(const FactContext& context, const Fact& fact) {
  auto path = fact.words[1];
  std::replace(path.begin(), path.end(), '.', '/');
  auto there = trimmed(context.node.read("/proc/sys/" + path));
  return unless(there == fact.after(2), there);
}

std::string mirror(const FactContext& context, const Fact& fact) {
  auto folder = fact.words[1] == "*" ? std::string("_default") : fact.words[1];
  auto text = context.node.read("/system/etc/cri/certs.d/" + folder + "/hosts.toml");
  return hasText(text, "\"" + fact.words[2] + "\".capabilities");
}

std::string file(const FactContext& context, const Fact& fact) {
  auto text = context.node.read(fact.words[1]);
  return unless(contains(text, fact.after(2)), text.substr(0, kShown));
}

std::string loaded(const FactContext& context, const Fact& fact) {
  auto text = context.node.read("/proc/modules");
  for (auto& line : lines(text)) {
    if (line.starts_with(fact.words[1] + " ")) return "";
  }
  return "the module is not loaded";
}

std::string mount(const FactContext& context, const Fact& fact) {
  auto text = context.node.read("/proc/mounts");
  return unless(contains(text, " " + fact.words[1] + " "), "it is not mounted");
}

std::string environment(const FactContext& context, const Fact& fact) {
  auto table = context.node.talosctl({"processes"}).out;
  std::smatch found;
  static const std::regex row(R"((?:^|\n)\S+\s+(\d+)\s[^\n]*/usr/bin/networkd\b)");
  if (!std::regex_search(table, found, row)) return "networkd does not run";
  auto variables = split(context.node.read("/proc/" + found[1].str() + "/environ"), '\0');
  bool there = std::find(variables.begin(), variables.end(), fact.words[1]) != variables.end();
  return unless(there, "networkd does not have the variable");
}

// --- reports of the node and of validate
// ------------------------------------------------------------

std::string timeserver(const FactContext& context, const Fact& fact) {
  return hasText(context.node.get("timeservers"), "- " + fact.words[1] + "\n");
}

std::string firewall(const FactContext& context, const Fact& fact) {
  return hasText(context.node.firewall(), fact.after(1));
}

std::string resource(const FactContext& context, const Fact& fact) {
  return hasText(context.node.get(fact.words[1]), fact.after(2));
}

std::string problem(const FactContext& context, const Fact& fact) {
  auto all = context.node.get("netstatus") + context.node.get("ethernet") +
             context.node.talosctl({"status"}).out +
             context.node.talosctl({"logs", "controller-runtime"}).out +
             context.node.talosctl({"dmesg"}).out + context.node.console();
  return unless(contains(all, fact.after(1)), "the node reports no such problem");
}

std::string without(const FactContext& context, const Fact& fact) {
  auto key = fact.words[1].substr(0, fact.words[1].size() - 1);
  for (auto& line : lines(context.validated)) {
    auto at = line.find(key);
    if (at != std::string::npos && line.find(fact.after(2), at) != std::string::npos) return "";
  }
  return "validate says nothing of it";
}

const std::map<std::string, std::string (*)(const FactContext&, const Fact&)> kChecks = {
    {"bond", bond},         {"vlan", vlan},
    {"bridge", bridge},     {"wireguard", wireguard},
    {"peer", peer},         {"mtu", mtu},
    {"address", address},   {"route", route},
    {"listen", listen},     {"vip", vip},
    {"search", resolver},   {"nameserver", resolver},
    {"host", host},         {"hostname", hostname},
    {"sysctl", sysctl},     {"mirror", mirror},
    {"file", file},         {"module", loaded},
    {"mount", mount},       {"environment", environment},
    {"firewall", firewall}, {"timeserver", timeserver},
    {"problem", problem},   {"resource", resource},
    {"not", without},
};

}  // namespace

std::string contradiction(const FactContext& context, const Fact& fact) {
  auto check = kChecks.find(fact.kind());
  KJ_REQUIRE(check != kChecks.end(), "no checker has this kind of fact", fact.line.c_str());
  return check->second(context, fact);
}

}  // namespace talos::published
