// The good kinds of changes.h.
#include <kj/encoding.h>

#include "common/tls/pki.h"
#include "tests/cluster/changes.h"

namespace talos::changes {
namespace {

using std::to_string;

Change firstConfig(Draw&, const Place&) {
  return {.reboots = true};
}

Change sysctl(Draw& draw, const Place&) {
  constexpr const char* kNames[] = {"net.ipv4.ip_default_ttl", "net.ipv4.tcp_keepalive_time",
                                    "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_retries2"};
  std::string name = draw.oneOf(kNames), value = to_string(draw.number(33, 120));
  auto path = name;
  for (auto& c : path) c = c == '.' ? '/' : c;
  return {.patch = "machine: {sysctls: {" + name + ": \"" + value + "\"}}",
          .shows = {"read", "/proc/sys/" + path},
          .shown = value};
}

Change host(Draw& draw, const Place&) {
  auto name = draw.word(), address = draw.addressIn("192.0.2");
  auto item = draw.chance(50);
  return {.patch = item ? "machine: {network: {extraHostEntries: [{ip: " + address +
                              ", aliases: [" + name + "]}]}}"
                        : document("StaticHostConfig", "name: " + draw.addressIn("198.51.100") +
                                                           "\nhostnames: [" + name + "]\n"),
          .shows = {"read", "/etc/hosts"},
          .shown = name};
}

Change hostName(Draw& draw, const Place&) {
  auto name = "node-" + draw.word();
  return {.patch = "machine: {network: {hostname: " + name + "}}",
          .shows = {"read", "/proc/sys/kernel/hostname"},
          .shown = name};
}

Change nameServer(Draw& draw, const Place&) {
  auto address = draw.addressIn("10.5.0");
  return {.patch = "machine: {network: {nameservers: [" + address + "]}}",
          .shows = {"get", "resolvers", "-o", "yaml"},
          .shown = address};
}

Change timeServer(Draw& draw, const Place&) {
  auto address = draw.addressIn("10.5.0");
  return {.patch = "machine: {time: {servers: [" + address + "]}}",
          .shows = {"get", "timeservers", "-o", "yaml"},
          .shown = address};
}

Change route(Draw& draw, const Place& place) {
  auto network = draw.addressIn("198.51.100") + "/32";
  return {
      .patch = ofLink(place, "routes: [{network: " + network + ", gateway: " + place.client + "}]"),
      .shows = {"get", "routes"},
      .shown = network};
}

Change address(Draw& draw, const Place& place) {
  auto more =
      "10." + to_string(draw.number(70, 99)) + "." + to_string(draw.number(1, 250)) + ".7/24";
  return {.patch = ofLink(place, "addresses: [" + more + "]"),
          .shows = {"get", "addresses"},
          .shown = more};
}

Change mtu(Draw& draw, const Place& place) {
  auto value = to_string(draw.number(1280, 1499));
  return {.patch = ofLink(place, "mtu: " + value),
          .shows = {"read", "/sys/class/net/eth0/mtu"},
          .shown = value};
}

Change openFirewall(Draw& draw, const Place&) {
  auto name = draw.word();
  return {.patch = blocked(rule(name, "2379-2380, 50000-50001", "10.5.0.0/24")),
          .shows = {"get", "firewallspecs", "-o", "yaml"},
          .shown = name};
}

Change nameOfCertificate(Draw& draw, const Place&) {
  return {.patch = "machine: {certSANs: [" + draw.word() + ".example.com]}"};
}

Change label(Draw& draw, const Place&) {
  auto key = draw.chance(50) ? "nodeLabels" : "nodeAnnotations";
  return {.patch = std::string("machine: {") + key + ": {example.com/" + draw.word() + ": \"" +
                   to_string(draw.number(1, 99)) + "\"}}"};
}

Change argument(Draw& draw, const Place&) {
  auto count = to_string(draw.number(5000, 50000));
  return {.patch = ofEtcd("snapshot-count", count), .shows = {"processes"}, .shown = count};
}

Change variable(Draw& draw, const Place&) {
  return {.patch = "machine: {env: {" + std::string("X_") + to_string(draw.number(1, 999)) +
                   ": \"" + draw.word() + "\"}}",
          .reboots = true};
}

Change file(Draw& draw, const Place&) {
  auto name = "/var/" + draw.word(), content = draw.word();
  return {.patch = "machine: {files: [{op: create, path: " + name +
                   ", permissions: 0o644, content: " + content + "}]}",
          .reboots = true,
          .shows = {"read", name},
          .shown = content};
}

Change mirror(Draw& draw, const Place&) {
  auto name = draw.word() + ".example.com";
  return {.patch = "machine: {registries: {mirrors: {" + name +
                   ": {endpoints: [\"http://10.5.0.1:5000\"]}}}}",
          .shows = {"read", "/system/etc/cri/certs.d/" + name + "/hosts.toml"},
          .shown = "10.5.0.1:5000"};
}

Change bridge(Draw& draw, const Place&) {
  auto name = "br" + to_string(draw.number(1, 99));
  return {.patch = "machine: {network: {interfaces: [{interface: " + name + ", addresses: [10.60." +
                   to_string(draw.number(1, 250)) + ".1/24], bridge: {stp: {enabled: false}}}]}}",
          .shows = {"get", "links"},
          .shown = name};
}

Change ruleForOthers(Draw& draw, const Place&) {
  auto network = draw.addressIn("198.51.100") + "/32";
  return {
      .patch = document("RoutingRuleConfig", "name: \"" + to_string(draw.number(100, 9999)) +
                                                 "\"\ndst: " + network + "\naction: blackhole\n"),
      .shows = {"get", "rules"},
      .shown = network.substr(0, network.find('/'))};
}

Change blackhole(Draw& draw, const Place&) {
  auto network = draw.addressIn("203.0.113") + "/32";
  return {.patch = document("BlackholeRouteConfig", "name: " + network + "\n"),
          .shows = {"get", "routes"},
          .shown = network.substr(0, network.find('/'))};
}

Change anotherCaToo(Draw&, const Place&) {
  auto pair = pki::makeAuthority({.organization = "talos"});
  return {.patch = kj::str("machine: {acceptedCAs: [{crt: ",
                           kj::encodeBase64(pair.certificate.asBytes()), "}]}")
                       .cStr()};
}

Change argumentOfKubernetes(Draw& draw, const Place&) {
  constexpr const char* kParts[] = {"machine: {kubelet: ", "cluster: {apiServer: ",
                                    "cluster: {scheduler: ", "cluster: {controllerManager: "};
  return {.patch = std::string(draw.oneOf(kParts)) + "{extraArgs: {v: \"" +
                   to_string(draw.number(1, 4)) + "\"}}}"};
}

Change receiver(Draw& draw, const Place&) {
  return {.patch = "machine: {logging: {destinations: [{endpoint: \"udp://" +
                   draw.addressIn("10.5.0") + ":" + to_string(draw.number(5000, 6000)) +
                   "\", format: json_lines}]}}"};
}

Change vlanBeside(Draw& draw, const Place&) {
  auto id = to_string(draw.number(2, 4000));
  return {.patch = "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: " + id +
                   ", addresses: [192.168.77.2/24]}]}]}}",
          .shows = {"get", "links"},
          .shown = "eth0." + id};
}

constexpr unsigned kAll = kLone | kTrio | kWorker | kMachine | kKube | kKubeWorker;
constexpr Kind kGood[] = {
    {"first config again", kAll, firstConfig},
    {"sysctl", kAll, sysctl},
    {"host", kAll, host},
    {"host name", kLone | kTrio | kWorker, hostName},
    {"name server", kLone | kWorker, nameServer},
    {"time server", kLone | kTrio | kWorker, timeServer},
    {"route", kLone | kWorker, route},
    {"address", kLone | kWorker, address},
    {"mtu", kLone | kTrio | kWorker, mtu},
    {"firewall that is open", kLone | kTrio | kWorker, openFirewall},
    {"name of the certificate", kLone | kTrio, nameOfCertificate},
    {"label", kLone | kTrio | kWorker | kKube | kKubeWorker, label},
    {"etcd: argument", kLone | kTrio, argument},
    {"variable", kLone | kTrio | kWorker | kMachine, variable},
    {"file", kLone | kTrio | kWorker, file},
    {"mirror", kLone | kWorker, mirror},
    {"bridge", kMachine, bridge},
    {"rule for others", kLone | kWorker, ruleForOthers},
    {"blackhole", kLone | kWorker, blackhole},
    {"another ca, too", kLone | kTrio | kWorker, anotherCaToo},
    {"argument of kubernetes", kLone | kTrio | kKube, argumentOfKubernetes},
    {"receiver of logs", kLone | kTrio | kWorker, receiver},
    {"vlan", kMachine, vlanBeside},
};

}  // namespace

std::span<const Kind> goodKinds() {
  return kGood;
}

}  // namespace talos::changes
