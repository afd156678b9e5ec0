// Wrong documents with one mistake each, the place and text of its report, and right documents.

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <map>
#include <string>

#include "common/config/config.h"
#include "common/testing/printing.h"
#include "common/tls/pki.h"

namespace talos::config {
namespace {

constexpr const char* kKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

// The place of a snippet in a document that is valid without it.
struct Slot {
  enum Section { kDocument, kTop, kMachine, kCluster, kEndpoint } section;
  bool controlPlane;
  unsigned indent;
  std::string before;
};

// A certificate of the curve P-256 in PEM, in base64.
const std::string kRecipient =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJlVENDQVIrZ0F3SUJBZ0lVTmkyc3g0dmZhdUVD"
    "VWJkcVNGN2RFclFndU84d0NnWUlLb1pJemowRUF3SXcKRVRFUE1BMEdBMVVFQXd3R1ltRmphM1Z3TUNB"
    "WERUSTJNVEV5TnpFeE1UYzFNVm9ZRHpJeE1qWXhNVEF6TVRFeApOelV4V2pBUk1ROHdEUVlEVlFRRERB"
    "WmlZV05yZFhBd1dUQVRCZ2NxaGtqT1BRSUJCZ2dxaGtqT1BRTUJCd05DCkFBUzJkU2Iraks1dVBXU2Uw"
    "SndZZkJ1bVpmR1JrS1ZUYnRxcWNwbEppSmtMUjQrb3BRRUUyWG5BeVpmdGl5ckEKdWtXVVgxa3BCU1o1"
    "M1hDRHBJNHJuUVZNbzFNd1VUQWRCZ05WSFE0RUZnUVUySzMvWXZncVFkeXVZYytuZnNCRAo0OFZUQ3E4"
    "d0h3WURWUjBqQkJnd0ZvQVUySzMvWXZncVFkeXVZYytuZnNCRDQ4VlRDcTh3RHdZRFZSMFRBUUgvCkJB"
    "VXdBd0VCL3pBS0JnZ3Foa2pPUFFRREFnTklBREJGQWlCNmF6UStkTTYwSGg5L3QwaGRIQTViZlRZNDhC"
    "QjMKLzZGcEFOa0VLNGQyUFFJaEFQM08yNy9lcWRIQ0VZRy9qSnEvZWNHYzFnVWdBUTFEZ0Z2NXlMYnJ4"
    "ZVMzCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

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
      {"encryption", {Slot::kMachine, false, 6, "  systemDiskEncryption:\n    ephemeral:\n"}},
      {"encryptionofstate", {Slot::kMachine, false, 6, "  systemDiskEncryption:\n    state:\n"}},
      {"registries", {Slot::kMachine, false, 4, "  registries:\n"}},
      {"cluster", {Slot::kCluster, false, 2, ""}},
      {"sharedcluster", {Slot::kCluster, true, 2, ""}},
      {"clusternet", {Slot::kCluster, true, 4, "  network:\n    dnsDomain: cluster.local\n"}},
      {"backup",
       {Slot::kCluster, false, 6,
        "  etcd:\n    backup:\n      accessKey: a\n      secretKey: b\n      encryptTo: " +
            kRecipient + "\n"}},
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

kj::String inBase64(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes());
}

// The secrets that a control-plane machine has, in flow style.
const pki::CertificateAndKey& authority() {
  static const auto made = pki::makeAuthority({.organization = "talos"});
  return made;
}
std::string pair() {
  return kj::str("{crt: ", inBase64(authority().certificate), ", key: ", inBase64(authority().key),
                 "}")
      .cStr();
}

struct Document {
  std::string text;
  unsigned firstLine, indent;  // of the snippet
};

Document documentOf(const Slot& slot, const std::string& snippet) {
  if (slot.section == Slot::kDocument) return {snippet + "\n", 1, 0};
  std::string text = "version: v1alpha1\nmachine:\n";
  auto certificate = "  ca: {crt: " + std::string(inBase64(authority().certificate).cStr()) + "}\n";
  text += slot.controlPlane ? "  type: controlplane\n  ca: " + pair() + "\n"
                            : "  type: worker\n" + certificate;
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
    document.firstLine = 8, document.indent = 4;
    text += snippet + "\n";
  } else {
    text += "  controlPlane: {endpoint: \"https://10.5.0.2:6443\"}\n";
  }
  text += "  token: abcdef.0123456789abcdef\n";
  if (slot.controlPlane) {
    text += "  ca: " + pair() + "\n  aggregatorCA: " + pair() + "\n  etcd: {ca: " + pair() +
            "}\n  serviceAccount: {key: " + inBase64(authority().key).cStr() + "}\n";
  } else if (snippet.substr(0, 3) != "ca:") {
    text += certificate;
  }
  insert(Slot::kCluster);
  insert(Slot::kTop);
  document.text = text;
  return document;
}

// Returns the problems, one a line, with places counted from the snippet's first character.
std::string problemsOf(const std::string& slotName, const std::string& snippet) {
  auto& slot = slots().at(slotName);
  auto document = documentOf(slot, snippet);
  auto config = parse(kj::arrayPtr(document.text.data(), document.text.size()));
  std::string out;
  for (auto& problem : config.problems()) {
    auto shown = kj::str(int(problem.line) - int(document.firstLine) + 1, ":",
                         int(problem.column) - int(document.indent), ": ",
                         problem.severity == Problem::Severity::kWarning ? "warning: " : "",
                         problem.path, problem.path.size() == 0 ? "" : ": ", problem.message,
                         problem.hint.size() == 0 ? "" : "; ", problem.hint);
    out += (out.empty() ? "" : "\n") + std::string(shown.cStr());
  }
  return out;
}

struct WrongRow {
  const char* slot;
  const char* text;
  const char* problem;  // line:column within the text
};

// One row, one mistake.
const WrongRow kWrong[] = {
#include "common/config/config-wrong.inc"
};

// Catches: a mistake that passes, that is reported at another place, without the correct form, or
// together with correct values.
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
     "3:18: warning: machine.network.interfaces[0].interface: \"lo0\" is read as \"lo\"\n5:18: warning: machine.network.interfaces[1].interface: \"lo0\" is read as \"lo\""},
    {"1 bonding", "machine", "network:\n  interfaces:\n    - interface: bond0\n      dhcp: true\n      bond:\n        mode: 802.3ad\n        lacpRate: fast\n        xmitHashPolicy: layer3+4\n        miimon: 100\n        updelay: 200\n        downdelay: 200\n        interfaces:\n          - eth0\n          - eth1",
     ""},
    {"1 VLANs", "machine", "network:\n  interfaces:\n    - interface: eth0\n      dhcp: false\n      vlans:\n        - vlanId: 100\n          cidr: \"192.168.2.10/28\"\n          routes:\n            - network: 0.0.0.0/0\n              gateway: 192.168.2.1",
     ""},
    {"2 registry mirror", "machine", "registries:\n    mirrors:\n    '*':\n        endpoints:\n        - http://10.5.0.1:6000/",
     "3:5: warning: machine.registries.*: this is read as one of mirrors; indent it further"},
    {"2 registry mirror with its dots", "machine", "...\nregistries:\n    mirrors:\n    '*':\n        endpoints:\n        - http://10.5.0.1:6000/",
     "2:11: a second \": \" in one line, or a value that is indented like a key; put text that holds \": \" in quotes"},
    {"3 certificate authorities", "machine", "files:\n  - content: |\n      -----BEGIN CERTIFICATE-----\n      ...\n      -----END CERTIFICATE-----        \n    permissions: 0644\n    path: /etc/ssl/certs/ca-certificates\n    op: append",
     ""},
    {"4 containerd metrics", "machine", "files:\n  - content: |\n      [metrics]\n        address = \"0.0.0.0:11234\"        \n    path: /var/cri/conf.d/metrics.toml\n    op: create",
     ""},
    {"5 proxies", "machine", "env:\n  http_proxy: <http proxy>\n  https_proxy: <https proxy>\n  no_proxy: <no proxy>",
     ""},
    {"5 name servers and time servers", "machine", "env:\ntime:\n  servers:\n    - <server 1>\n    - <server ...>\nnetwork:\n  nameservers:\n    - <ip 1>\n    - <ip ...>",
     "8:7: machine.network.nameservers[0]: \"<ip 1>\" is not an IP address\n9:7: machine.network.nameservers[1]: \"<ip ...>\" is not an IP address\n4:7: machine.time.servers[0]: \"<server 1>\" is neither an IP address nor a DNS name\n5:7: machine.time.servers[1]: \"<server ...>\" is neither an IP address nor a DNS name"},
    {"7 endpoint", "endpoint", "https://endpoint.example.local:6443",
     ""},
    {"9 wireguard", "network", "interfaces:\n    # ip link add dev wg0 type wireguard\n  - interface: wg0\n    mtu: 1500\n    # ip address add dev wg0 192.168.2.1/24\n    cidr: 192.168.2.1/24\n    # wg set wg0 listen-port 51820 private-key /path/to/private-key peer ABCDEF...\n    wireguard:\n      privateKey: <privatekey file contents>\n      listenPort: 51820\n      peers:\n        allowedIPs:\n          - 192.168.88.0/24\n        endpoint: 209.202.254.14.8172\n        publicKey: ABCDEF...",
     "12:9: warning: machine.network.interfaces[0].wireguard.peers: expected a list; this mapping is read as its only item (begin it with \"- \")\n14:19: warning: machine.network.interfaces[0].wireguard.peers[0].endpoint: \"209.202.254.14.8172\" is read as \"209.202.254.14:8172\"\n9:7: machine.network.interfaces[0].wireguard.privateKey: not valid base64 of 32 bytes; use the output of `wg genkey`\n15:9: machine.network.interfaces[0].wireguard.peers[0].publicKey: not valid base64 of 32 bytes; use the output of `wg pubkey`"},
    {"9 wireguard, its network at the top", "top", "network:\n  interfaces: []",
     "1:1: network: unknown key \"network\"; it belongs below machine or cluster"},
    {"11 disk encryption", "machine", "systemDiskEncryption:\n  ephemeral:\n    keys:\n      - nodeID: {}\n        slot: 0\n  state:\n    keys:\n      - nodeID: {}\n        slot: 0",
     ""},
    {"11 encryption keys", "machine", "state:\n  keys:\n    - nodeID: {} # key kind\n      slot: 1\n\nephemeral:\n  keys:\n    - static:\n        passphrase: supersecret\n      slot: 0",
     "1:1: warning: machine.state: this is read as systemDiskEncryption.state\n6:1: warning: machine.ephemeral: this is read as systemDiskEncryption.ephemeral"},
    {"11 key rotation", "machine", "ephemeral:\n  keys:\n    - static:\n        passphrase: oldkey\n      keySlot: 0\n    - static:\n        passphrase: newkey\n      keySlot: 1",
     "1:1: warning: machine.ephemeral: this is read as systemDiskEncryption.ephemeral\n5:7: warning: machine.systemDiskEncryption.ephemeral.keys[0].keySlot: this is read as slot\n8:7: warning: machine.systemDiskEncryption.ephemeral.keys[1].keySlot: this is read as slot"},
    {"11 key rotation, done", "machine", "ephemeral:\n  keys:\n    - static:\n        passphrase: newkey\n      keySlot: 1",
     "1:1: warning: machine.ephemeral: this is read as systemDiskEncryption.ephemeral\n5:7: warning: machine.systemDiskEncryption.ephemeral.keys[0].keySlot: this is read as slot"},
    {"18 shared address", "sharedmachine", "network:\n  interfaces:\n  - interface: eth0\n    dhcp: true\n    vip:\n      ip: 192.168.0.15",
     ""},
    {"12 patched images", "cluster", "apiServer: {image: \"k8s.gcr.io/kube-apiserver:v1.20.4\"}\ncontrollerManager: {image: \"k8s.gcr.io/kube-controller-manager:v1.20.4\"}\nscheduler: {image: \"k8s.gcr.io/kube-scheduler:v1.20.4\"}",
     ""},
    {"12 patched kubelet", "machine", "kubelet: {image: \"ghcr.io/talos-systems/kubelet:v1.20.5\"}",
     ""},
};
// clang-format on

// Documents that other releases accept without a warning.
const WrongRow kAccepted[] = {
    {"endpoint", "https://10.5.0.2:6443\n    localAPIServerPort: 0", ""},
    {"cluster", "aescbcEncryptionSecret: AAECAwQFBgcICQoLDA0ODw==", ""},
    {"cluster", "aescbcEncryptionSecret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", ""},
    {"cluster", "aescbcEncryptionSecret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", ""},
    {"cluster", "network: {dnsDomain: cluster.local, cni: {}}", ""},
    {"registries", "config: {a.example: {}}", ""},
    {"machine",
     "kubelet:\n  extraConfig:\n    maxPods: 200\n    serverTLSBootstrap: true\n"
     "    shutdownGracePeriod: 0s\n    shutdownGracePeriodByPodPriority:\n"
     "      - priority: -5\n        shutdownGracePeriodSeconds: 250\n"
     "      - {priority: 2000000000, shutdownGracePeriodSeconds: 50}",
     ""},
    {"machine", "kubelet: {extraConfig: {shutdownGracePeriod: 5m, evictionHard: {a.b: 1Gi}}}", ""},
    {"machine", "kubelet: {image: 'kubelet:v1.20.6', extraConfig: {'*': [1], maxPods: ~}}", ""},
    {"machine", "network: {}\nkubelet: {}\nregistries: {}\ninstall: {}\ntime: {}", ""},
    {"machine",
     "nodeLabels:\n  topology.kubernetes.io/zone: a\n  node.kubernetes.io/instance-type: m1\n"
     "  node-role.kubernetes.io/db: ''\n  kubernetes.io/hostnames: x\n"
     "nodeAnnotations: {talos.dev/ann1: x, talos.dev/owned: x, Example.org/Owner: Jo}\n"
     "nodeTaints: {node.kubernetes.io/gpu: NoSchedule, talos.dev/cordoned: 'x:NoExecute'}",
     ""},
    {"network", "interfaces:\n  - interface: bond0\n    bond: {mode: active-backup}",
     "3:5: warning: machine.network.interfaces[0].bond.interfaces: the bond has no links, so it "
     "has "
     "no carrier; for example [eth0, eth1]"},
    {"cluster",
     "etcd: {advertisedSubnets: [10.0.0.0/24, '!10.0.0.9/32'], listenSubnets: ['!::/0']}", ""},
    {"link", "addresses: [10.0.0.5/24]\nroutes:\n  - gateway: 10.0.0.1", ""},
    {"link", "routes: [{network: '', gateway: 10.0.0.1}, {gateway: 'fe80::1', onlink: true}]", ""},
    {"link", "routes: [{gateway: 0.0.0.0}, {gateway: 10.0.0.1, metric: 20}]", ""},
    {"link", "vlans: [{vlanId: 5, routes: [{gateway: 10.6.0.1, source: 10.6.0.2, mtu: 1400}]}]",
     ""},
    {"bonds", "- interface: bond1\n  bond: {interfaces: [eth3]}\n  routes: [{gateway: 'fd00::1'}]",
     ""},
    {"link", "cidr: 10.0.0.5/32\nroutes: [{network: 10.0.0.1/32}, {gateway: 10.0.0.1}]", ""},
    {"link", "cidr: 10.0.0.5/24\nroutes: [{gateway: 192.0.2.1, onlink: true}]", ""},
    {"link", "dhcp: true\naddresses: [10.0.0.5/24]\nroutes: [{gateway: 192.0.2.1}]", ""},
    {"link", "cidr: 10.0.0.5/24\nroutes: [{network: 'fd00:9::/48', gateway: 'fd00::1'}]", ""},
    {"network",
     "interfaces:\n  - {interface: eth0, cidr: 10.0.0.5/24, routes: [{gateway: 10.1.0.1}]}\n"
     "  - {interface: eth0, cidr: 10.1.0.5/24}",
     ""},
    {"network",
     "interfaces:\n  - {interface: eth0, cidr: 10.0.0.5/24, routes: [{gateway: 10.1.0.1}]}\n"
     "  - {deviceSelector: {driver: e1000}, cidr: 10.1.0.5/24}",
     ""},
    {"network",
     "interfaces: [{interface: br0, bridge: {interfaces: [eth1]}}, {interface: br0, mtu: 1400},"
     " {interface: dummy0, cidr: 169.254.2.53/32}, {interface: wgx}, {interface: wg0, ignore: "
     "true}]",
     ""},
    {"network", "interfaces: [{interface: enp129s0f1, vlans: [{vlanId: 4094}]}]", ""},
    // The server of DHCP may give the parent its MTU.
    {"link", "dhcp: true\nvlans: [{vlanId: 5, mtu: 9000}]", ""},
    {"network",
     "interfaces: [{deviceSelector: {driver: e1000}, dhcp: true, vlans: [{vlanId: 5, mtu: 9000}]}]",
     ""},
};

// Catches: a config that works with other releases and is refused by this one.
TEST(ConfigWrong, AcceptsWhatWorksElsewhere) {
  for (auto& row : kAccepted) {
    EXPECT_EQ(std::string(row.problem), problemsOf(row.slot, row.text))
        << row.slot << ": " << row.text;
  }
}

// Catches: a token that is refused although trustd would accept it; an easily guessed token without
// a warning.
TEST(ConfigWrong, TokensHaveAnyFormThatTheirReadersTake) {
  auto said = [](const char* machineToken, const char* clusterToken) {
    std::string text =
        "machine:\n  type: worker\n  token: " + std::string(machineToken) +
        "\n  ca: {crt: " + inBase64(authority().certificate).cStr() +
        "}\ncluster:\n  controlPlane: {endpoint: \"https://10.5.0.2:6443\"}\n  token: " +
        clusterToken + "\n  ca: {crt: " + inBase64(authority().certificate).cStr() + "}\n";
    return render(parse(kj::arrayPtr(text.data(), text.size()), "c").problems());
  };
  auto good = "abcdef.0123456789abcdef";
  constexpr auto kForm = "use 6 characters, a dot and 16 characters, all of a-z and 0-9\n"_kj;
  EXPECT_EQ(said(good, good), "");
  EXPECT_EQ(said("A-Token_of+Upper/Case.Letters==", good), "");
  EXPECT_EQ(said("secret", good),
            kj::str("c:3:3: warning: machine.token: weak: it could be guessed; ", kForm));
  EXPECT_EQ(said("abcdef.01234567", good),
            kj::str("c:3:3: warning: machine.token: weak: it could be guessed; ", kForm));
  EXPECT_EQ(said("aaaaaa.aaaaaaaaaaaaaaaa", good),
            kj::str("c:3:3: warning: machine.token: weak: it could be guessed; ", kForm));
  EXPECT_EQ(said(good, "aaaaaa.aaaaaaaaaaaaaaaa"),
            kj::str("c:7:3: warning: cluster.token: weak: it could be guessed; ", kForm));
  for (auto other : {"no-bootstrap-token", "ABCDEF.0123456789ABCDEF", "abcdef.0123456789abcde",
                     "abcdef-0123456789abcdef", "a.b", "0123456789abcdef"}) {
    EXPECT_EQ(said(good, other),
              kj::str("c:7:3: warning: cluster.token: Kubernetes does not accept this bootstrap "
                      "token, so no worker can join; ",
                      kForm))
        << other;
  }
  for (auto wrong : {"'two words'", "\"line\\nX-Header: x\"", "k\xc3\xa4se"}) {
    EXPECT_EQ(said(good, wrong),
              kj::str("c:7:3: cluster.token: must be visible ASCII characters; ", kForm))
        << wrong;
  }
  EXPECT_EQ(said("join-abcdef.0123456789abcdef", good), "");
  for (auto wrong : {"join-abcdef", "join-abcdef.0123456789abcde", "join-abcdef.0123456789abcdefg",
                     "join-abcdeF.0123456789abcdef", "join-abcdef-0123456789abcdef"}) {
    EXPECT_EQ(said(wrong, good),
              "c:3:3: machine.token: not a valid join token; use join-, 6 characters, a dot and 16 "
              "characters, of a-z and 0-9, as `talosctl token create` prints it\n");
  }
}

// Catches: a control plane whose token is one that its own trustd does not know.
TEST(ConfigWrong, AControlPlaneHasNoJoinToken) {
  auto text = "machine:\n  type: controlplane\n  token: join-abcdef.0123456789abcdef\n"_kj;
  auto all = std::string(render(parse(text, "c").problems()).cStr());
  EXPECT_NE(all.find("c:3:3: machine.token: a join token, which workers join with; use the token "
                     "that the control-plane nodes share\n"),
            all.npos)
      << all;
}

// Catches: a private key of a CA on a node that issues no certificates; a node whose certificate
// cannot be verified.
TEST(ConfigWrong, AWorkerHasCertificatesOfCasOnly) {
  auto said = [](const std::string& machineCa, const std::string& clusterCa) {
    std::string text = "machine:\n  type: worker\n  token: abcdef.0123456789abcdef\n" + machineCa +
                       "cluster:\n  controlPlane: {endpoint: \"https://10.5.0.2:6443\"}\n"
                       "  token: abcdef.0123456789abcdef\n" +
                       clusterCa;
    std::string paths;
    for (auto& problem : parse(kj::arrayPtr(text.data(), text.size())).problems()) {
      EXPECT_EQ(Problem::Severity::kWarning, problem.severity) << problem.toString().cStr();
      paths += std::string(problem.path.cStr()) + " ";
    }
    return paths;
  };
  auto crt = "  ca: {crt: " + std::string(inBase64(authority().certificate).cStr()) + "}\n";
  auto hash = "  caHash: " + std::string(pki::authorityHash(authority().certificate).cStr()) + "\n";
  EXPECT_EQ("", said(crt, crt));
  EXPECT_EQ("", said(hash, crt));
  EXPECT_EQ("machine.ca cluster.ca ", said("", ""));
  EXPECT_EQ("machine.ca.key cluster.ca.key ",
            said("  ca: " + pair() + "\n", "  ca: " + pair() + "\n"));
}

// Catches: a documented example that is refused, or silently means something else.
TEST(ConfigWrong, TheDocumentsSnippetsAreReadOrExplained) {
  for (auto& row : kDocumented) {
    EXPECT_EQ(std::string(row.problems), problemsOf(row.slot, row.text)) << row.section;
  }
}

// Catches: a volume that cannot have all the keys that a header has room for, or is given more.
TEST(ConfigWrong, AllKeySlotsCanBeUsed) {
  std::string keys = "keys:";
  for (unsigned i = 0; i < 32; ++i) {
    keys += "\n- {static: {passphrase: x}, slot: " + std::to_string(31 - i) + "}";
  }
  EXPECT_EQ(problemsOf("encryption", keys), "");
  EXPECT_EQ(problemsOf("encryption", keys + "\n- {nodeID: {}, slot: 32}"),
            "34:16: machine.systemDiskEncryption.ephemeral.keys[32].slot: 32 is not a valid slot; "
            "must be 0 to 31");
  EXPECT_EQ(problemsOf("encryption", keys + "\n- {nodeID: {}, slot: 7}"),
            "34:16: machine.systemDiskEncryption.ephemeral.keys[32].slot: slot 7 is a duplicate");
}

// Catches: a mistake that is corrected in the message only, and not in the value that is read.
TEST(ConfigWrong, WhatIsPutRightIsRead) {
  auto document = documentOf(slots().at("machine"), std::string("network:\n"
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

// Catches: defaults that differ from the behaviour of the kernel or the format for an absent key.
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

// Catches: a field that is read but not written, or written so that it is read as something else.
TEST(ConfigWrong, WhatIsWrittenIsReadAgain) {
  for (auto& row : kDocumented) {
    auto document = documentOf(slots().at(row.slot), row.text);
    auto config = parse(kj::arrayPtr(document.text.data(), document.text.size()));
    if (!config.good()) continue;
    codec::WriteOptions options{.empties = codec::Empties::kOmit};
    auto written = codec::writeYaml(config.get(), options);
    auto again = parse(written);
    EXPECT_TRUE(again.good()) << row.section << "\n" << render(again.problems()).cStr();
    EXPECT_EQ(written, codec::writeYaml(again.get(), options)) << row.section;
  }
  auto document = documentOf(slots().at("machine"), "files: [{path: /var/x, op: create}]");
  auto config = parse(kj::arrayPtr(document.text.data(), document.text.size()));
  auto file = config.get().getMachine().getFiles()[0];
  EXPECT_EQ(kj::str("content: \"\"\npermissions: 0o644\npath: /var/x\nop: create\n"),
            codec::writeYaml(file));
  EXPECT_EQ(kj::str("{\"content\":\"\",\"permissions\":420,\"path\":\"/var/x\",\"op\":\"create\"}"),
            codec::writeJson(file, {.indent = 0}));
}

// Catches: time or memory that grows faster than a document whose every line is wrong.
TEST(ConfigWrong, ADocumentOfMistakesIsBounded) {
  std::string siblings = "registries:\n  mirrors:\n", links = "network:\n  interfaces:\n",
              unknown = "kubelet:\n";
  for (unsigned i = 0; i < 10'000; ++i) {
    auto n = std::to_string(i);
    siblings += "  h" + n + ": {endpoints: [x]}\n";
    links += "    - {interface: lo0, cidr: x, mtu: 1}\n";
    unknown += "  key" + n + ": x\n";
  }
  for (auto& text : {siblings, links, unknown}) {
    auto document = documentOf(slots().at("machine"), text);
    auto config = parse(kj::arrayPtr(document.text.data(), document.text.size()));
    EXPECT_FALSE(config.good());
    EXPECT_LE(config.problems().size(), 5 * codec::kMaxProblems);
  }
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
  // An address of this node's own conflicts with the shared address.
  for (auto own : {"cidr: 10.5.0.9/24", "addresses: [10.5.0.8/24, 10.5.0.9/24]",
                   "vlans: [{vlanId: 5, cidr: 10.5.0.9/24}]"}) {
    auto both = std::string("network: {interfaces: [{interface: eth1, ") + own +
                "}, {interface: eth0, dhcp: true, vip: {ip: 10.5.0.9}}]}";
    EXPECT_EQ(1u, problems(true, Slot::kMachine, both.c_str())) << own;
  }
  // Each selector may be for the links of another machine.
  auto twice = [](const char* first, const char* second) {
    return std::string("network: {interfaces: [{") + first + ", vip: {ip: 10.5.0.9}}, {" + second +
           ", vip: {ip: 10.5.0.9}}]}";
  };
  auto selector = "deviceSelector: {driver: virtio_net}";
  EXPECT_EQ(1u, problems(true, Slot::kMachine, twice("interface: a", "interface: b").c_str()));
  EXPECT_EQ(0u, problems(true, Slot::kMachine, twice("interface: a", selector).c_str()));
  EXPECT_EQ(0u, problems(true, Slot::kMachine, twice(selector, "interface: b").c_str()));
  auto cni = "network: {dnsDomain: cluster.local, cni: {name: custom}}";
  EXPECT_EQ(0u, problems(false, Slot::kCluster, cni));
  EXPECT_EQ(1u, problems(true, Slot::kCluster, cni));
  // For an ignored link only the shared address is checked, because the node still adds this
  // address to the link.
  auto ignored = "network: {interfaces: [{interface: eth0, ignore: true, cidr: x, mtu: 1}]}";
  EXPECT_EQ(0u, problems(false, Slot::kMachine, ignored));
  auto shared = [](const char* address) {
    return std::string(
               "network: {interfaces: [{interface: eth0, ignore: true, cidr: x, vip: {ip: ") +
           address + "}}]}";
  };
  EXPECT_EQ(1u, problems(false, Slot::kMachine, shared("10.5.0.9").c_str()));
  EXPECT_EQ(0u, problems(true, Slot::kMachine, shared("10.5.0.9").c_str()));
  EXPECT_EQ(1u, problems(true, Slot::kMachine, shared("10.5.0.9/24").c_str()));
}

}  // namespace
}  // namespace talos::config
