// Wrong documents, one mistake each: where it is said to be, and what is said. And what is right.

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <map>
#include <string>

#include "common/config.h"
#include "common/pki.h"
#include "common/printing.h"

namespace talos::config {
namespace {

constexpr const char* kKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

// Where a snippet stands in a document that is right without it.
struct Slot {
  enum Section { kDocument, kTop, kMachine, kCluster, kEndpoint } section;
  bool controlPlane;
  unsigned indent;
  std::string before;
};

const std::map<std::string, Slot>& slots() {
  static const std::string links = "  network:\n    interfaces:\n";
  static const std::string link = links + "      - interface: eth0\n";
  static const std::string tunnel =
      link + "        wireguard:\n          privateKey: " + kKey + "\n";
  static const std::string bond =
      links + "      - interface: bond0\n        bond:\n          interfaces: [eth1, eth2]\n";
  static const std::map<std::string, Slot> table = {
      {"document", {Slot::kDocument, false, 0, ""}},
      {"top", {Slot::kTop, false, 0, ""}},
      {"machine", {Slot::kMachine, false, 2, ""}},
      {"sharedmachine", {Slot::kMachine, true, 2, ""}},
      {"network", {Slot::kMachine, false, 4, "  network:\n"}},
      {"link", {Slot::kMachine, false, 8, link}},
      {"sharedlink", {Slot::kMachine, true, 8, link}},
      {"bond", {Slot::kMachine, false, 10, bond}},
      {"bonds", {Slot::kMachine, false, 6, bond}},
      {"tunnel", {Slot::kMachine, false, 10, tunnel}},
      {"peer",
       {Slot::kMachine, false, 14,
        tunnel + "          peers:\n            - publicKey: " + kKey + "\n"}},
      {"disk", {Slot::kMachine, false, 6, "  disks:\n    - device: /dev/sdb\n"}},
      {"file", {Slot::kMachine, false, 6, "  files:\n    - content: text\n"}},
      {"encryption",
       {Slot::kMachine, false, 6, "  systemDiskEncryption:\n    ephemeral:\n"}},
      {"registries", {Slot::kMachine, false, 4, "  registries:\n"}},
      {"cluster", {Slot::kCluster, false, 2, ""}},
      {"clusternet",
       {Slot::kCluster, true, 4, "  network:\n    dnsDomain: cluster.local\n"}},
      {"endpoint", {Slot::kEndpoint, false, 0, ""}},
  };
  return table;
}

std::string indented(const std::string& text, unsigned columns) {
  std::string out, line;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    line = text.substr(begin, end - begin);
    out += (line.empty() ? "" : std::string(columns, ' ') + line) + "\n";
    begin = end + 1;
  }
  return out;
}

kj::String base64(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes());
}

// The secrets that a control-plane machine has, in flow style.
const pki::CertificateAndKey& authority() {
  static const auto made = pki::makeAuthority({.organization = "talos"});
  return made;
}
std::string pair() {
  return kj::str("{crt: ", base64(authority().certificate), ", key: ", base64(authority().key), "}")
      .cStr();
}

struct Document {
  std::string text;
  unsigned firstLine, indent;  // of the snippet
};

Document documentOf(const Slot& slot, const std::string& snippet) {
  if (slot.section == Slot::kDocument) return {snippet + "\n", 1, 0};
  std::string text = "version: v1alpha1\nmachine:\n";
  text += slot.controlPlane ? "  type: controlplane\n  ca: " + pair() + "\n" : "  type: worker\n";
  text += "  token: abcdef.0123456789abcdef\n";
  Document document{"", 0, slot.indent};
  auto insert = [&](Slot::Section section) {
    if (slot.section != section) return;
    text += slot.before;
    document.firstLine = 1;
    for (char c : text) document.firstLine += c == '\n';
    text += indented(snippet, slot.indent);
  };
  insert(Slot::kMachine);
  text += "cluster:\n";
  if (slot.section == Slot::kEndpoint) {
    text += "  controlPlane:\n    endpoint: ";
    document.firstLine = 7, document.indent = 14;
    text += snippet + "\n";
  } else {
    text += "  controlPlane: {endpoint: \"https://10.5.0.2:6443\"}\n";
  }
  text += "  token: abcdef.0123456789abcdef\n";
  if (slot.controlPlane) {
    text += "  ca: " + pair() + "\n  aggregatorCA: " + pair() + "\n  etcd: {ca: " + pair() +
            "}\n  serviceAccount: {key: " + base64(authority().key).cStr() + "}\n";
  }
  insert(Slot::kCluster);
  insert(Slot::kTop);
  document.text = text;
  return document;
}

// The problems, one a line, with places counted from the snippet's first character.
std::string problemsOf(const std::string& slotName, const std::string& snippet) {
  auto& slot = slots().at(slotName);
  auto document = documentOf(slot, snippet);
  auto config = parse(kj::arrayPtr(document.text.data(), document.text.size()));
  std::string out;
  for (auto& problem : config.problems()) {
    auto shown = kj::str(
        int(problem.line) - int(document.firstLine) + 1, ":",
        int(problem.column) - int(document.indent), ": ",
        problem.severity == Problem::Severity::kWarning ? "warning: " : "", problem.path,
        problem.path.size() == 0 ? "" : ": ", problem.message,
        problem.hint.size() == 0 ? "" : "; ", problem.hint);
    out += (out.empty() ? "" : "\n") + std::string(shown.cStr());
  }
  return out;
}

struct Row {
  const char* slot;
  const char* text;
  const char* problem;  // line:column within the text
};

// One row, one mistake.
// clang-format off
const Row kWrong[] = {
    {"document", "", ""},
    {"document", "# nothing", ""},
    {"document", "[]", ""},
    {"document", "just text", ""},
    {"document", "cluster: {}", ""},
    {"document", "machine:\n\ttype: worker", ""},
    {"document", "machine: {type: worker", ""},
    {"document", "machine: {}\nmachine: {}", ""},
    {"document", "a: *nobody", ""},
    {"document", "machine: \"x", ""},
    {"document", "machine: []\ncluster: {controlPlane: {endpoint: https://a}}", ""},
    {"document", "kind: x", ""},
    {"top", "persists: true", ""},
    {"top", "debug: maybe", ""},
    {"top", "debug: \"true\"", ""},
    {"top", "persist: []", ""},
    {"top", "version: v1beta1", ""},
    {"top", "network: {}", ""},
    {"top", "hostname: x", ""},
    {"top", "sysctls: {}", ""},
    {"top", "token: x", ""},
    {"machine", "certSANs: [a b]", ""},
    {"machine", "certSANs: [-a.b]", ""},
    {"machine", "certSANs: [\"*.*.example.org\"]", ""},
    {"machine", "certSANs: 10.5.0.2", ""},
    {"machine", "certSANs: [[a]]", ""},
    {"machine", "certSANs:\n  -", ""},
    {"machine", "kublet: {}", ""},
    {"machine", "kubelet: []", ""},
    {"machine", "kubelet: {imagee: x}", ""},
    {"machine", "kubelet: {extraArgs: {cert-dir: /x}}", ""},
    {"machine", "kubelet: {extraArgs: {--v: 4}}", ""},
    {"machine", "kubelet: {extraArgs: [v]}", ""},
    {"machine", "kubelet: {extraArgs: {v: [4]}}", ""},
    {"machine", "kubelet: {registerWithFQDN: 1}", ""},
    {"machine", "kubelet: {extraMounts: [{destination: var/lib}]}", ""},
    {"machine", "kubelet: {extraMounts: [{source: /x}]}", ""},
    {"machine", "kubelet: {extraMounts: [{destination: /x, type: bind}]}", ""},
    {"machine", "kubelet: {extraMounts: [{destination: /x, type: bind, source: ../y}]}", ""},
    {"machine", "kubelet: {extraMounts: {destination: /x}}", ""},
    {"machine", "kubelet: {nodeIP: {}}", ""},
    {"machine", "kubelet: {extraConfig: {}}", ""},
    {"machine", "time: {servers: pool.ntp.org}", ""},
    {"machine", "time: {servers: [\"a b\"]}", ""},
    {"machine", "time: {servers: [\"<server 1>\"]}", ""},
    {"machine", "time: {server: x}", ""},
    {"machine", "time: {disabled: sometimes}", ""},
    {"machine", "time: {bootTimeout: 2m}", ""},
    {"machine", "env: [a]", ""},
    {"machine", "env: {\"a b\": c}", ""},
    {"machine", "env: {1a: c}", ""},
    {"machine", "env: {a: {b: c}}", ""},
    {"machine", "sysctls: {ipforward: 1}", ""},
    {"machine", "sysctls: {\"net..ip\": 1}", ""},
    {"machine", "sysctls: {\"net.ipv4 .x\": 1}", ""},
    {"machine", "sysctls: [net.ipv4.ip_forward]", ""},
    {"machine", "sysctls: {.net.x: 1}", ""},
    {"machine", "features: {rbac: true}", ""},
    {"machine", "udev: {rules: []}", ""},
    {"machine", "logging: {}", ""},
    {"machine", "seccompProfiles: []", ""},
    {"machine", "kernel: {modules: []}", ""},
    {"machine", "pods: []", ""},
    {"machine", "sysfs: {}", ""},
    {"machine", "nodeLabels: {}", ""},
    {"machine", "install: {disk: sda}", ""},
    {"machine", "install: {disk: /dev/../etc}", ""},
    {"machine", "install: {wipe: no way}", ""},
    {"machine", "install: {bootloder: true}", ""},
    {"machine", "install: {extraKernelArgs: console=tty0}", ""},
    {"machine", "install: {diskSelector: {size: big}}", ""},
    {"machine", "install: {diskSelector: {size: \"=> 5GB\"}}", ""},
    {"machine", "install: {diskSelector: {type: sdd}}", ""},
    {"machine", "install: {diskSelector: {models: x}}", ""},
    {"machine", "install: {extensions: []}", ""},
    {"machine", "install: {legacyBIOSSupport: true}", ""},
    {"machine", "state: {keys: [{nodeID: {}}]}", ""},
    {"machine", "ephemeral: {keys: [{nodeID: {}}]}", ""},
    {"machine", "systemDisksEncryption: {state: {keys: [{nodeID: {}}]}}", ""},
    {"network", "hostname: a..b", ""},
    {"network", "hostname: -a", ""},
    {"network", "hostname: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ""},
    {"network", "hostname: 10.5.0.2", ""},
    {"network", "hostname: [a]", ""},
    {"network", "nameservers: 1.1.1.1", ""},
    {"network", "nameservers: [1.1.1]", ""},
    {"network", "nameservers: [dns.example.org]", ""},
    {"network", "nameservers: [1.1.1.1, 1.0.0.1, 8.8.8.8, 8.8.4.4]", ""},
    {"network", "interfaces: {eth0: {}}", ""},
    {"network", "interfaces:\n  -", ""},
    {"network", "interfaces: [eth0]", ""},
    {"network", "interfaces: [{cidr: 10.5.0.2/24}]", ""},
    {"network", "interfaces: [{interface: averyverylongname}]", ""},
    {"network", "interfaces: [{interface: a/b}]", ""},
    {"network", "interfaces: [{interface: lo0, cidr: 127.0.0.2/8}]", ""},
    {"network", "extraHostEntries: [{ip: x, aliases: [a]}]", ""},
    {"network", "extraHostEntries: [{ip: 1.1.1.1}]", ""},
    {"network", "extraHostEntries: [{ip: 1.1.1.1, aliases: [a b]}]", ""},
    {"network", "extraHostEntries: [{aliases: [a]}]", ""},
    {"network", "kubespan: {enabled: true}", ""},
    {"network", "interface: []", ""},
    {"link", "cidr: 10.5.0.2", ""},
    {"link", "cidr: fd00::2", ""},
    {"link", "cidr: 10.5.0.2/33", ""},
    {"link", "cidr: 10.5.0/24", ""},
    {"link", "cidr: eth0", ""},
    {"link", "addresses: [10.5.0.2/99]", ""},
    {"link", "addresses: [x]", ""},
    {"link", "dhcp: true\ncidr: 10.5.0.2/24", ""},
    {"link", "dhcp: yes please", ""},
    {"link", "mtu: 12", ""},
    {"link", "mtu: 70000", ""},
    {"link", "mtu: -1", ""},
    {"link", "mtu: big", ""},
    {"link", "mtu: \"1500\"", ""},
    {"link", "mtu: 1500.5", ""},
    {"link", "ignored: true", ""},
    {"link", "bridge: {}", ""},
    {"link", "deviceSelector: {}", ""},
    {"link", "routes: [{network: 0.0.0.0/0, gateway: here}]", ""},
    {"link", "routes: [{network: default, gateway: 10.5.0.1}]", ""},
    {"link", "routes: [{network: 10.0.0.0/8, gateway: \"fd00::1\"}]", ""},
    {"link", "routes: [{network: 10.0.0.0/8, metric: -4}]", ""},
    {"link", "routes: [{network: 10.0.0.0/8, metrics: 4}]", ""},
    {"link", "routes: {network: 10.0.0.0/8}", ""},
    {"link", "dhcpOptions: {routeMetric: 10}", ""},
    {"link", "dhcp: true\ndhcpOptions: {ipv4: false}", ""},
    {"link", "dhcp: true\ndhcpOptions: {routeMetric: low}", ""},
    {"link", "dhcp: true\ndhcpOptions: {ipv5: true}", ""},
    {"link", "vip: {ip: 10.5.0.9}", ""},
    {"link", "vlans: [{cidr: 10.5.0.2/24}]", ""},
    {"link", "vlans: [{vlanId: 4095}]", ""},
    {"link", "vlans: [{vlanId: 70000}]", ""},
    {"link", "vlans: [{vlanId: 5}, {vlanId: 5}]", ""},
    {"link", "vlans: [{vlanId: 5, cidr: 10.5.0.2}]", ""},
    {"link", "vlans: [{vlanId: 5, mtu: 1400}]", ""},
    {"link", "vlans: [{vlanId: 5, addresses: []}]", ""},
    {"link", "vlans: [{vlanId: 5, routes: [{network: x}]}]", ""},
    {"link", "vlans: {vlanId: 5}", ""},
    {"link", "dummy: maybe", ""},
    {"link", "bond: {interfaces: [eth1]}\ndummy: true", ""},
    {"sharedlink", "vip: {ip: 10.5.0.9/24}", ""},
    {"sharedlink", "vip: {ip: master}", ""},
    {"sharedlink", "vip: {}", ""},
    {"sharedlink", "vip: 10.5.0.9", ""},
    {"sharedlink", "vip: {ip: 10.5.0.9, hcloud: {}}", ""},
    {"bond", "mode: 802.3ab", ""},
    {"bond", "mode: 4", ""},
    {"bond", "mode: lacp", ""},
    {"bond", "mode: active_backup", ""},
    {"bond", "lacpRate: fast", ""},
    {"bond", "lacpRate: quick", ""},
    {"bond", "xmitHashPolicy: layer3", ""},
    {"bond", "miimon: 100ms", ""},
    {"bond", "miimon: 100\nupdelay: 250", ""},
    {"bond", "updelay: 200", ""},
    {"bond", "miimon: 100\ndowndelay: 50", ""},
    {"bond", "useCarrier: 2", ""},
    {"bond", "arpInterval: 100", ""},
    {"bond", "arpInterval: 100\narpIPTarget: [fd00::1]", ""},
    {"bond", "miimon: 100\narpInterval: 100\narpIPTarget: [10.5.0.1]", ""},
    {"bond", "mode: 802.3ad\narpInterval: 100\narpIPTarget: [10.5.0.1]", ""},
    {"bond", "mode: balance-alb\narpValidate: all", ""},
    {"bond", "arpValidate: some", ""},
    {"bond", "arpAllTargets: each", ""},
    {"bond", "mode: 802.3ad\nprimary: eth1", ""},
    {"bond", "mode: active-backup\nprimary: eth9", ""},
    {"bond", "primaryReselect: best", ""},
    {"bond", "failOverMac: passive", ""},
    {"bond", "resendIgmp: 256", ""},
    {"bond", "numPeerNotif: 300", ""},
    {"bond", "allSlavesActive: 2", ""},
    {"bond", "packetsPerSlave: 65536", ""},
    {"bond", "mode: broadcast\npacketsPerSlave: 2", ""},
    {"bond", "lpInterval: 2147483648", ""},
    {"bond", "adSelect: size", ""},
    {"bond", "adSelect: count", ""},
    {"bond", "mode: 802.3ad\nadActorSysPrio: 65536", ""},
    {"bond", "adActorSysPrio: 5", ""},
    {"bond", "mode: 802.3ad\nadUserPortKey: 1024", ""},
    {"bond", "adUserPortKey: 3", ""},
    {"bond", "mode: 802.3ad\nadActorSystem: 01:00:00:00:00:01", ""},
    {"bond", "mode: 802.3ad\nadActorSystem: 02:00", ""},
    {"bond", "mode: 802.3ad\nadActorSystem: 00:00:00:00:00:00", ""},
    {"bond", "adActorSystem: 02:00:00:00:00:01", ""},
    {"bond", "tlbDynamicLb: 0", ""},
    {"bond", "mode: balance-tlb\ntlbDynamicLb: 2", ""},
    {"bond", "peerNotifyDelay: 5", ""},
    {"bond", "modes: 802.3ad", ""},
    {"bond", "slaves: [eth1]", ""},
    {"link", "bond: {mode: 802.3ad}", ""},
    {"link", "bond: {interfaces: eth1}", ""},
    {"link", "bond: {interfaces: []}", ""},
    {"link", "bond: {interfaces: [eth0]}", ""},
    {"link", "bond: {interfaces: [\"eth 1\"]}", ""},
    {"bonds", "- interface: bond1\n  bond: {interfaces: [eth1]}", ""},
    {"bonds", "- interface: eth1\n  dhcp: true", ""},
    {"bonds", "- interface: eth1\n  cidr: 10.5.0.2/24", ""},
    {"tunnel", "privatKey: x", ""},
    {"tunnel", "listenPort: 70000", ""},
    {"tunnel", "listenPort: any", ""},
    {"tunnel", "firewallMark: -1", ""},
    {"tunnel", "peers: [{endpoint: a:1}]", ""},
    {"tunnel", "peers: [{publicKey: short}]", ""},
    {"tunnel", "peers: {publicKey: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}", ""},
    {"tunnel", "peers: [{publicKey: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}, {publicKey: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}]", ""},
    {"link", "wireguard: {}", ""},
    {"link", "wireguard: {privateKey: secret}", ""},
    {"peer", "endpoint: 209.202.254.14.8172", ""},
    {"peer", "endpoint: 209.202.254.14", ""},
    {"peer", "endpoint: \"fd00::1:51820\"", ""},
    {"peer", "endpoint: host:0", ""},
    {"peer", "persistentKeepaliveInterval: 5", ""},
    {"peer", "persistentKeepaliveInterval: 5 s", ""},
    {"peer", "persistentKeepaliveInterval: 20h", ""},
    {"peer", "allowedIPs: [10.0.0.1]", ""},
    {"peer", "allowedIPs: 10.0.0.0/8", ""},
    {"peer", "presharedKey: x", ""},
    {"disk", "partitions: [{mountpoint: /var/a}, {mountpoint: /var/b, size: 1GB}]", ""},
    {"disk", "partitions: [{mountpoint: var/a}]", ""},
    {"disk", "partitions: [{mountpoint: /data}]", ""},
    {"disk", "partitions: [{size: 5 potatoes, mountpoint: /var/a}]", ""},
    {"disk", "partitions: [{size: -5, mountpoint: /var/a}]", ""},
    {"disk", "partitions: [{size: 1GB}]", ""},
    {"disk", "partitions: [{size: 1GB, mountpoint: /var/a}, {mountpoint: /var/a}]", ""},
    {"disk", "partitions: {size: 1GB}", ""},
    {"disk", "partition: []", ""},
    {"machine", "disks: [{device: sdb}]", ""},
    {"machine", "disks: [{partitions: []}]", ""},
    {"machine", "disks: [{device: \"\"}]", ""},
    {"machine", "disks: [{device: /dev/sdb}, {device: /dev/sdb}]", ""},
    {"machine", "disks: /dev/sdb", ""},
    {"file", "path: etc/x\nop: append", ""},
    {"file", "path: /etc/x\nop: create", ""},
    {"file", "path: /var/../etc/x\nop: create", ""},
    {"file", "path: /var/x\nop: replace", ""},
    {"file", "path: /var/x", ""},
    {"file", "op: create", ""},
    {"file", "path: /var/x\nop: create\npermissions: rw", ""},
    {"file", "path: /var/x\nop: create\npermissions: 0o10000", ""},
    {"file", "path: /var/x\nop: create\npermissions: \"0644\"", ""},
    {"file", "path: /var/x\nop: create\nmode: 0644", ""},
    {"file", "path: \"\"\nop: append", ""},
    {"machine", "files: {path: /var/x}", ""},
    {"machine", "files: [/var/x]", ""},
    {"encryption", "keys: []", ""},
    {"encryption", "provider: luks1\nkeys: [{nodeID: {}}]", ""},
    {"encryption", "cipher: aes\nkeys: [{nodeID: {}}]", ""},
    {"encryption", "keys: [{slot: 0}]", ""},
    {"encryption", "keys: [{nodeID: {}}, {nodeID: {}}]", ""},
    {"encryption", "keys: [{nodeID: {}, slot: 32}]", ""},
    {"encryption", "keys: [{nodeID: {}, slot: -1}]", ""},
    {"encryption", "keys: [{static: {}}]", ""},
    {"encryption", "keys: [{static: {passphrase: x}, nodeID: {}}]", ""},
    {"encryption", "keys: [{nodeID: x}]", ""},
    {"encryption", "keys: [{nodeID: {}, keySlot: 3}]", ""},
    {"encryption", "keys: [{nodeID: {}, keySlot: 3, slot: 4}]", ""},
    {"encryption", "keys: [{nodeId: {}}]", ""},
    {"encryption", "keys: {nodeID: {}}", ""},
    {"encryption", "keys: [{nodeID: {}}]\nkeySize: 512", ""},
    {"machine", "systemDiskEncryption: {state: {keys: [{static: {passphrase: x}}]}}", ""},
    {"machine", "systemDiskEncryption: {}\nstate: {keys: []}", ""},
    {"machine", "systemDiskEncryption: {meta: {}}", ""},
    {"machine", "systemDiskEncryption: {ephemeral: {}}", ""},
    {"registries", "mirrors: {https://docker.io: {endpoints: [https://a.example]}}", ""},
    {"registries", "mirrors: {docker.io: {endpoints: [a.example]}}", ""},
    {"registries", "mirrors: {docker.io: {endpoints: https://a.example}}", ""},
    {"registries", "mirrors: {docker.io: [https://a.example]}", ""},
    {"registries", "mirrors: {docker.io: {endpoints: [ftp://a.example]}}", ""},
    {"registries", "mirrors: {docker.io: {endpoint: [https://a.example]}}", ""},
    {"registries", "mirrors: [docker.io]", ""},
    {"registries", "mirrors:\n\"*\": {endpoints: [http://10.5.0.1:6000/]}", ""},
    {"registries", "mirror: {}", ""},
    {"registries", "config: {\"*\": {}}", ""},
    {"registries", "config: {a.example: {auth: {}}}", ""},
    {"registries", "config: {a.example: {auth: {username: u}}}", ""},
    {"registries", "config: {a.example: {auth: {auth: \"!\"}}}", ""},
    {"registries", "config: {a.example: {auth: {auth: YWJj}}}", ""},
    {"registries", "config: {a.example: {auth: {user: u, password: p, username: u}}}", ""},
    {"registries", "config: {a.example: {tls: {ca: \"-----BEGIN CERTIFICATE-----\"}}}", ""},
    {"registries", "config: {a.example: {tls: {ca: YWJj}}}", ""},
    {"registries", "config: {a.example: {tls: {clientIdentity: {key: YWJj}}}}", ""},
    {"registries", "config: {a.example: {tls: {clientIdentity: {crt: YWJj}}}}", ""},
    {"registries", "config: {a.example: {tls: {insecureSkipVerify: 1}}}", ""},
    {"registries", "mirrors: {b: {endpoints: [http://a.example]}}\nconfig: {a.example: {tls: {insecureSkipVerify: true}}}", ""},
    {"cluster", "clusterNam: x", ""},
    {"cluster", "controlPlane2: {}", ""},
    {"cluster", "token2: x", ""},
    {"cluster", "aescbcEncryptionSecret: c2hvcnQ=", ""},
    {"cluster", "ca: {crt: \"?\"}", ""},
    {"cluster", "ca: {crt: YWJj}", ""},
    {"cluster", "ca: {key: YWJj}", ""},
    {"cluster", "ca: x", ""},
    {"cluster", "serviceAccount: {key: x}", ""},
    {"cluster", "apiServer: {certSANs: [\"a b\"]}", ""},
    {"cluster", "apiServer: {extraArgs: {--v: 4}}", ""},
    {"cluster", "apiServer: {extraArgs: [a]}", ""},
    {"cluster", "apiServer: {extraVolumes: [{hostPath: x, mountPath: /y}]}", ""},
    {"cluster", "apiServer: {extraVolumes: [{hostPath: /x}]}", ""},
    {"cluster", "apiServer: {extraVolumes: [{hostPath: /x, mountPath: /y}, {hostPath: /z, mountPath: /y}]}", ""},
    {"cluster", "apiServer: {extraVolumes: [{hostPath: /x, mountPath: /y, readOnly: true}]}", ""},
    {"cluster", "apiServer: {disablePodSecurityPolicy: true}", ""},
    {"cluster", "apiServer: {admissionControl: []}", ""},
    {"cluster", "controllerManager: {images: x}", ""},
    {"cluster", "controllerManager: {extraArgs: {-v: 4}}", ""},
    {"cluster", "controllerManager: {extraVolumes: [{hostPath: /x, mountPath: y}]}", ""},
    {"cluster", "scheduler: {extraArgs: {-v: 4}}", ""},
    {"cluster", "scheduler: {extraVolumes: {hostPath: /x}}", ""},
    {"cluster", "proxy: {mode: ipvz}", ""},
    {"cluster", "proxy: {disabled: nope}", ""},
    {"cluster", "proxy: {extraArgs: {-v: 4}}", ""},
    {"cluster", "etcd: {extraArgs: {data-dir: /x}}", ""},
    {"cluster", "etcd: {extraArgs: {--v: 4}}", ""},
    {"cluster", "etcd: {subnet: 10.0.0.0/8}", ""},
    {"cluster", "coreDNS: {images: x}", ""},
    {"cluster", "coreDNS: []", ""},
    {"cluster", "externalCloudProvider: {manifests: [https://a.example/x]}", ""},
    {"cluster", "externalCloudProvider: {enabled: true, manifests: [x]}", ""},
    {"cluster", "extraManifests: [x.yaml]", ""},
    {"cluster", "extraManifests: https://a.example/x", ""},
    {"cluster", "extraManifestHeaders: [a]", ""},
    {"cluster", "inlineManifests: [{contents: x}]", ""},
    {"cluster", "inlineManifests: [{name: \"  \"}]", ""},
    {"cluster", "inlineManifests: [{name: a}, {name: a}]", ""},
    {"cluster", "inlineManifests: {name: a}", ""},
    {"cluster", "adminKubeconfig: {certLifetime: 5}", ""},
    {"cluster", "adminKubeconfig: {certLifetime: 1 year}", ""},
    {"cluster", "adminKubeconfig: {certLifetime: 0h}", ""},
    {"cluster", "allowSchedulingOnMaster: true", ""},
    {"cluster", "allowSchedulingOnControlPlanes: true", ""},
    {"cluster", "discovery: {}", ""},
    {"cluster", "id: x", ""},
    {"cluster", "secret: x", ""},
    {"cluster", "secretboxEncryptionSecret: x", ""},
    {"clusternet", "podSubnets: 10.244.0.0/16", ""},
    {"clusternet", "podSubnets: [10.244.0.0]", ""},
    {"clusternet", "podSubnets: [10.244.0.0/40]", ""},
    {"clusternet", "serviceSubnets: [x]", ""},
    {"clusternet", "serviceSubnets: [10.96.0.0/29]", ""},
    {"clusternet", "podSubnets: [10.96.0.0/16]\nserviceSubnets: [10.96.0.0/12]", ""},
    {"clusternet", "cni: {name: calico}", ""},
    {"clusternet", "cni: {}", ""},
    {"clusternet", "cni: {name: custom}", ""},
    {"clusternet", "cni: {name: flannel, urls: [https://a.example/x]}", ""},
    {"clusternet", "cni: {name: custom, urls: [a.example]}", ""},
    {"clusternet", "cni: flannel", ""},
    {"clusternet", "dnsDomains: x", ""},
    {"endpoint", "10.5.0.2:6443", ""},
    {"endpoint", "https://10.5.0.2:port", ""},
    {"endpoint", "https://", ""},
    {"endpoint", "https://10.5.0.2:70000", ""},
    {"endpoint", "https://fd00::1:6443", ""},
    {"endpoint", "http://10.5.0.2:6443", ""},
    {"endpoint", "ftp://10.5.0.2", ""},
    {"endpoint", "[https://a]", ""},
    {"endpoint", "\"\"", ""},
};
// clang-format on

// Catches: a mistake that passes, that is reported elsewhere than where it is, in words that do not
// tell what would be right, or together with others that are none.
TEST(ConfigWrong, EachMistakeIsFoundWhereItIs) {
  for (auto& row : kWrong) {
    EXPECT_EQ(std::string(row.problem), problemsOf(row.slot, row.text))
        << row.slot << ": " << row.text;
  }
}

// The machine configs of the user's documents, each put into a whole document.
struct Snippet {
  const char* section;
  const char* slot;
  const char* text;
  const char* problems;
};

// clang-format off
const Snippet kDocumented[] = {
    {"1 static addressing", "machine", "network:\n  hostname: talos\n  nameservers:\n    - 10.0.0.1\n  interfaces:\n    - interface: eth0\n      cidr: 10.0.0.201/8\n      mtu: 8765\n      routes:\n        - network: 0.0.0.0/0\n          gateway: 10.0.0.1\n    - interface: eth1\n      ignore: true\ntime:\n  servers:\n    - time.cloudflare.com",
     ""},
    {"1 additional addresses", "machine", "network:\n  interfaces:\n    - interface: lo0\n      cidr: 192.168.0.21/24\n    - interface: lo0\n      cidr: 10.2.2.2/24",
     ""},
    {"1 bonding", "machine", "network:\n  interfaces:\n    - interface: bond0\n      dhcp: true\n      bond:\n        mode: 802.3ad\n        lacpRate: fast\n        xmitHashPolicy: layer3+4\n        miimon: 100\n        updelay: 200\n        downdelay: 200\n        interfaces:\n          - eth0\n          - eth1",
     ""},
    {"1 VLANs", "machine", "network:\n  interfaces:\n    - interface: eth0\n      dhcp: false\n      vlans:\n        - vlanId: 100\n          cidr: \"192.168.2.10/28\"\n          routes:\n            - network: 0.0.0.0/0\n              gateway: 192.168.2.1",
     ""},
    {"2 registry mirror", "machine", "registries:\n    mirrors:\n    '*':\n        endpoints:\n        - http://10.5.0.1:6000/",
     ""},
    {"2 registry mirror with its dots", "machine", "...\nregistries:\n    mirrors:\n    '*':\n        endpoints:\n        - http://10.5.0.1:6000/",
     ""},
    {"3 certificate authorities", "machine", "files:\n  - content: |\n      -----BEGIN CERTIFICATE-----\n      ...\n      -----END CERTIFICATE-----        \n    permissions: 0644\n    path: /etc/ssl/certs/ca-certificates\n    op: append",
     ""},
    {"4 containerd metrics", "machine", "files:\n  - content: |\n      [metrics]\n        address = \"0.0.0.0:11234\"        \n    path: /var/cri/conf.d/metrics.toml\n    op: create",
     ""},
    {"5 proxies", "machine", "env:\n  http_proxy: <http proxy>\n  https_proxy: <https proxy>\n  no_proxy: <no proxy>",
     ""},
    {"5 name servers and time servers", "machine", "env:\ntime:\n  servers:\n    - <server 1>\n    - <server ...>\nnetwork:\n  nameservers:\n    - <ip 1>\n    - <ip ...>",
     ""},
    {"7 endpoint", "endpoint", "https://endpoint.example.local:6443",
     ""},
    {"9 wireguard", "network", "interfaces:\n    # ip link add dev wg0 type wireguard\n  - interface: wg0\n    mtu: 1500\n    # ip address add dev wg0 192.168.2.1/24\n    cidr: 192.168.2.1/24\n    # wg set wg0 listen-port 51820 private-key /path/to/private-key peer ABCDEF...\n    wireguard:\n      privateKey: <privatekey file contents>\n      listenPort: 51820\n      peers:\n        allowedIPs:\n          - 192.168.88.0/24\n        endpoint: 209.202.254.14.8172\n        publicKey: ABCDEF...",
     ""},
    {"9 wireguard, its network at the top", "top", "network:\n  interfaces: []",
     ""},
    {"11 disk encryption", "machine", "systemDiskEncryption:\n  ephemeral:\n    keys:\n      - nodeID: {}\n        slot: 0\n  state:\n    keys:\n      - nodeID: {}\n        slot: 0",
     ""},
    {"11 encryption keys", "machine", "state:\n  keys:\n    - nodeID: {} # key kind\n      slot: 1\n\nephemeral:\n  keys:\n    - static:\n        passphrase: supersecret\n      slot: 0",
     ""},
    {"11 key rotation", "machine", "ephemeral:\n  keys:\n    - static:\n        passphrase: oldkey\n      keySlot: 0\n    - static:\n        passphrase: newkey\n      keySlot: 1",
     ""},
    {"11 key rotation, done", "machine", "ephemeral:\n  keys:\n    - static:\n        passphrase: newkey\n      keySlot: 1",
     ""},
    {"18 shared address", "sharedmachine", "network:\n  interfaces:\n  - interface: eth0\n    dhcp: true\n    vip:\n      ip: 192.168.0.15",
     ""},
    {"12 patched images", "cluster", "apiServer: {image: \"k8s.gcr.io/kube-apiserver:v1.20.4\"}\ncontrollerManager: {image: \"k8s.gcr.io/kube-controller-manager:v1.20.4\"}\nscheduler: {image: \"k8s.gcr.io/kube-scheduler:v1.20.4\"}",
     ""},
    {"12 patched kubelet", "machine", "kubelet: {image: \"ghcr.io/talos-systems/kubelet:v1.20.5\"}",
     ""},
};
// clang-format on

TEST(ConfigDump, D){ if(auto*f=fopen("/work/wt/model/dump.txt","w")){ for(auto&r:kWrong){fprintf(f,"%s\x1f%s\x1f%s\x1e",r.slot,r.text,problemsOf(r.slot,r.text).c_str());} for(auto&r:kDocumented){fprintf(f,"%s\x1f%s\x1f%s\x1e",r.slot,r.text,problemsOf(r.slot,r.text).c_str());} fclose(f);} }
// Catches: what the documents tell to write is refused, or silently means something else.
TEST(ConfigWrong, TheDocumentsSnippetsAreReadOrExplained) {
  for (auto& row : kDocumented) {
    EXPECT_EQ(std::string(row.problems), problemsOf(row.slot, row.text)) << row.section;
  }
}

// Catches: a slip that is put right in the message only and not in what is read.
TEST(ConfigWrong, WhatIsPutRightIsRead) {
  auto document = documentOf(slots().at("machine"),
                             std::string("network:\n"
                                         "  interfaces:\n"
                                         "    - interface: lo0\n"
                                         "      wireguard:\n"
                                         "        privateKey: ") +
                                 kKey +
                                 "\n"
                                 "        peers:\n"
                                 "          publicKey: " +
                                 kKey +
                                 "\n"
                                 "          endpoint: 209.202.254.14.8172\n"
                                 "registries:\n"
                                 "  mirrors:\n"
                                 "  '*':\n"
                                 "    endpoints: [http://10.5.0.1:6000/]\n"
                                 "state:\n"
                                 "  keys:\n"
                                 "    - nodeID:\n"
                                 "      keySlot: 3\n");
  auto config = parse(kj::arrayPtr(document.text.data(), document.text.size()));
  EXPECT_TRUE(config.good()) << render(config.problems()).cStr();
  auto machine = config.get().getMachine();
  auto interface = machine.getNetwork().getInterfaces()[0];
  EXPECT_EQ(kj::StringPtr("lo"), interface.getInterface());
  ASSERT_EQ(1u, interface.getWireguard().getPeers().size());
  EXPECT_EQ(kj::StringPtr("209.202.254.14:8172"),
            interface.getWireguard().getPeers()[0].getEndpoint());
  ASSERT_EQ(1u, machine.getRegistries().getMirrors().size());
  auto mirror = machine.getRegistries().getMirrors()[0];
  EXPECT_EQ(kj::StringPtr("*"), mirror.getKey());
  EXPECT_EQ(kj::StringPtr("http://10.5.0.1:6000"), mirror.getValue().getEndpoints()[0]);
  auto state = machine.getSystemDiskEncryption().getState();
  EXPECT_EQ(kj::StringPtr("luks2"), state.getProvider());
  ASSERT_EQ(1u, state.getKeys().size());
  EXPECT_TRUE(state.getKeys()[0].hasNodeID());
  EXPECT_EQ(3u, state.getKeys()[0].getSlot());
}

// Catches: defaults that differ from what the kernel or the format does with an absent key.
TEST(ConfigWrong, AbsentKeysHaveTheirDefaults) {
  auto document = documentOf(slots().at("machine"),
                             "network:\n"
                             "  interfaces:\n"
                             "    - interface: bond0\n"
                             "      dhcp: true\n"
                             "      dhcpOptions: {}\n"
                             "      bond: {interfaces: [eth0]}\n"
                             "files: [{path: /var/x, op: create}]\n");
  auto config = parse(kj::arrayPtr(document.text.data(), document.text.size()));
  EXPECT_TRUE(config.good()) << render(config.problems()).cStr();
  auto machine = config.get().getMachine();
  auto bond = machine.getNetwork().getInterfaces()[0].getBond();
  EXPECT_EQ(BondMode::BALANCE_RR, bond.getMode());
  EXPECT_TRUE(bond.getUseCarrier());
  EXPECT_EQ(1u, bond.getPacketsPerSlave());
  EXPECT_EQ(65535, bond.getAdActorSysPrio());
  EXPECT_TRUE(machine.getNetwork().getInterfaces()[0].getDhcpOptions().getIpv4());
  EXPECT_EQ(0644u, machine.getFiles()[0].getPermissions());
}

// Catches: a control-plane rule that is applied to workers, or the other way round.
TEST(ConfigWrong, RulesFollowTheMachinesType) {
  auto problems = [](bool controlPlane, Slot::Section section, const char* snippet) {
    Slot slot{section, controlPlane, 2, ""};
    auto document = documentOf(slot, snippet);
    auto config = parse(kj::arrayPtr(document.text.data(), document.text.size()));
    return config.problems().size();
  };
  auto vip = "network: {interfaces: [{interface: eth0, dhcp: true, vip: {ip: 10.5.0.9}}]}";
  EXPECT_EQ(1u, problems(false, Slot::kMachine, vip));
  EXPECT_EQ(0u, problems(true, Slot::kMachine, vip));
  auto cni = "network: {dnsDomain: cluster.local, cni: {name: custom}}";
  EXPECT_EQ(0u, problems(false, Slot::kCluster, cni));
  EXPECT_EQ(1u, problems(true, Slot::kCluster, cni));
  // Nothing of a link that is left alone is checked.
  auto ignored = "network: {interfaces: [{interface: eth0, ignore: true, cidr: x, mtu: 1}]}";
  EXPECT_EQ(0u, problems(false, Slot::kMachine, ignored));
}

}  // namespace
}  // namespace talos::config
