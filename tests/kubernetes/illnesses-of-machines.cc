// Illnesses below Kubernetes: the client, the machines, their network, and whom they trust.
#include <kj/encoding.h>

#include <filesystem>
#include <fstream>

#include "common/tls/pki.h"
#include "tests/kubernetes/illnesses.h"

namespace talos {
namespace {

std::string base64(kj::StringPtr pem) {
  return kj::encodeBase64(pem.asBytes()).cStr();
}

// --- clients

// A minute is the shortest lifetime, so the certificate ends while the test waits.
void expireTalosconfig(Patient& patient) {
  auto path = patient.file("expired-talosconfig");
  std::filesystem::remove(path);
  patient.cluster.talos.ok(
      patient.cluster.at(patient.master, {"config", "new", path, "--crt-ttl", "60s"}));
  patient.useTalosconfig(path);
}

void replaceTalosconfig(Patient& patient) {
  auto other = pki::makeAuthority({.organization = "talos"});
  auto leaf = pki::issue(other.certificate, other.key,
                         {.organizations = kj::arr(kj::str("os:admin")), .server = false});
  auto path = patient.file("other-talosconfig");
  std::ofstream(path) << "context: other\ncontexts:\n    other:\n        endpoints: ["
                      << patient.cluster.talos.endpoint(patient.master.address)
                      << "]\n        ca: " << base64(other.certificate)
                      << "\n        crt: " << base64(leaf.certificate)
                      << "\n        key: " << base64(leaf.key) << "\n";
  patient.useTalosconfig(path);
}

// --- machines

void crashNetworkd(Patient& patient) {
  patient.startAgain(patient.worker);  // a crash counts for an hour, or until the next boot
  patient.cluster.talos.ok(
      patient.cluster.at(patient.worker, {"service", "networkd", "kill", "--signal", "SIGSEGV"}));
}

void writeFileOverFolder(Patient& patient) {
  patient.startAgain(patient.worker);  // files are written at each boot
  patient.patch(
      patient.worker,
      object(
          {"machine", "files"},
          R"([{"op": "create", "path": "/var/lib/containerd", "permissions": 384, "content": "x"}])"),
      "reboot");
}

// --- networks

void changeDefaultRoute(const Patient& patient, std::vector<std::string> change) {
  std::vector<std::string> words = {"ip", "route"};
  words.insert(words.end(), change.begin(), change.end());
  auto result = patient.cluster.in(patient.cluster.talos.process(patient.master.name), words, 10);
  EXPECT_EQ(result.status, 0) << result.err;
}

// A node that needs nothing outside its network needs no route.
void removeDefaultRoute(Patient& patient) {
  changeDefaultRoute(patient, {"del", "default"});
  patient.patch(patient.master,
                object({"cluster", "extraManifests"}, R"(["http://192.0.2.1/cni.yaml"])"));
}

// No host of the segment has the address.
void silenceNameServer(Patient& patient) {
  patient.patch(patient.master, R"([
    {"op": "add", "path": "/machine/network/nameservers", "value": ["10.5.0.9"]},
    {"op": "add", "path": "/cluster/extraManifests", "value": ["http://manifests.example.org/cni.yaml"]}])");
}

// --- trust

void replaceKubernetesCa(Patient& patient) {
  auto other = pki::makeAuthority({.organization = "kubernetes"});
  patient.patch(patient.worker, R"([{"op": "replace", "path": "/cluster/ca/crt", "value": ")" +
                                    base64(other.certificate) + R"("}])");
}

// The config is valid when it is applied. The API server restarts meanwhile, for which other
// programs exit.
void endAggregatorCa(Patient& patient) {
  auto authority = pki::makeAuthority({.commonName = "front-proxy",
                                       .keyType = pki::KeyType::kEcdsaP256,
                                       .lifetime = 20 * kj::SECONDS});
  patient.patch(patient.master, R"([{"op": "replace", "path": "/cluster/aggregatorCA", "value": )"
                                R"({"crt": ")" +
                                    base64(authority.certificate) + R"(", "key": ")" +
                                    base64(authority.key) + R"("}}])");
  auto end = pki::inspect(authority.certificate).notAfter;
  auto ended = [&] { return kj::systemPreciseCalendarClock().now() > end; };
  EXPECT_TRUE(harness::eventually(ended, 60, 1));
}

// The first token of a config is machine.token. With its certificate the node would not join.
void joinWithWrongToken(Patient& patient) {
  auto config = patient.configText(patient.worker);
  auto from = config.find("token:");
  ASSERT_NE(from, std::string::npos);
  auto to = config.find('\n', from);
  config.replace(from, to - from, "token: abcdef.0123456789abcdef");
  patient.boot(patient.worker, config, false);
}

// The machine is a control plane of the other cluster, so it issues its certificate itself.
void replaceByAnotherCluster(Patient& patient) {
  auto folder = patient.file("another-cluster");
  patient.cluster.talos.ok(
      {"gen", "config", "another", "https://10.5.0.3:6443", "--output-dir", folder});
  patient.replaceMachine(patient.worker, harness::slurp(folder + "/controlplane.yaml"));
  harness::Result last;
  auto answers = [&] {
    last = patient.cluster.in(patient.cluster.segment(),
                              {harness::talosctlPath(), "--talosconfig", folder + "/talosconfig",
                               "-e", kWorker, "-n", kWorker, "version"},
                              30);
    return last.status == 0;
  };
  EXPECT_TRUE(harness::eventually(answers, kShown, 1)) << last.out << last.err;
}

}  // namespace

std::vector<Illness> illnessesOfClients() {
  return {
      {"the talosconfig leads nowhere",
       [](Patient&) {},
       "endpoint-unreachable",
       "nothing listens on its port",
       {"-e", "127.0.0.9", "version"},
       "refused",
       nullptr,
       false,
       {"-e", "127.0.0.9"}},
      {"the certificate of the talosconfig has expired",
       expireTalosconfig,
       "client-certificate",
       "the client certificate of the talosconfig has expired",
       {"version"},
       "expired"},
      {"the talosconfig is of another cluster",
       replaceTalosconfig,
       "endpoint-unreachable",
       "is of another CA than that of the talosconfig",
       {"-n", kMaster, "version"},
       "certificate"},
  };
}

std::vector<Illness> illnessesOfMachines() {
  return {
      {"the node is off", [](Patient& p) { p.power(p.worker, false); }, "node-down", "10.5.0.3",
       kHealth, "10.5.0.3", nullptr, true},
      filledIn({"a node has no config",
                [](Patient& p) { p.boot(p.worker, ""); },
                "maintenance",
                "the node has no config: it is in maintenance mode",
                {"-n", kWorker, "status"},
                "aintenance"},
               [](Patient& p) {
                 return Answers{.placeholders = {{"its config", p.originalConfig(p.worker)}}};
               }),
      editedOnWorker({"a file of the config cannot be written",
                      writeFileOverFolder,
                      "boot",
                      "/var/lib/containerd",
                      {"-n", kWorker, "status"},
                      "not in effect"}),
      filledIn({"two nodes have one name",
                [](Patient& p) {
                  p.patch(p.worker,
                          object({"machine", "network", "hostname"}, "\"" + p.master.name + "\""));
                },
                "hostname-duplicate",
                "two nodes have the host name sick-master-1",
                {"-n", "10.5.0.2,10.5.0.3", "get", "hostname"},
                "sick-master-1"},
               "another name", "sick-worker-1"),
      {"a program crashes",
       crashNetworkd,
       "service-crash",
       "the program of the service networkd has crashed",
       {"-n", kWorker, "crashes"},
       "networkd"},
      typed({"trustd is stopped", [](Patient& p) { p.stop(p.master, "trustd"); }, "service",
             "the service trustd does not run: it has been stopped", services(kMaster),
             "Service stopped"}),
  };
}

std::vector<Illness> illnessesOfNetworks() {
  return {
      editedOnWorker(
          {"a link of the config is not there",
           [](Patient& p) {
             p.patch(p.worker, object({"machine", "network", "interfaces"},
                                      R"([{"interface": "eth7", "addresses": ["10.77.0.3/24"]}])"));
           },
           "network-plan",
           "eth7",
           {"-n", kWorker, "get", "netstatus", "-o", "yaml"},
           "eth7"}),
      {"a link has no DHCP server",
       [](Patient& p) {
         p.patch(p.worker, object({"machine", "network", "interfaces"},
                                  R"([{"interface": "dummy7", "dummy": true, "dhcp": true}])"));
       },
       "address",
       "no DHCP server has given dummy7 an address",
       {"-n", kWorker, "get", "leases"},
       "dummy7"},
      {"a node has no default route", removeDefaultRoute, "default-route",
       "the node has no default route", kManifests, "unreachable",
       [](Patient& p) {
         changeDefaultRoute(p, {"replace", "default", "via", "10.5.0.1", "dev", "eth0"});
       }},
      {"the name servers are silent", silenceNameServer, "resolver",
       "the name servers do not answer", kManifests, "manifests.example.org"},
      // vipd takes the address for a link that networkd leaves alone, as for that of a container.
      {"a shared address is on no link",
       [](Patient& p) {
         p.patch(p.master,
                 object({"machine", "network", "interfaces"},
                        R"([{"interface": "eth7", "ignore": true, "vip": {"ip": "10.5.0.77"}}])"));
       },
       "vip",
       "no node holds the shared address 10.5.0.77",
       {"-n", kMaster, "get", "vipstatus", "-o", "yaml"},
       "eth7"},
  };
}

std::vector<Illness> illnessesOfTrust() {
  return {
      editedOnWorker({"cluster.ca of a worker is of another cluster",
                      replaceKubernetesCa,
                      "authority-differs",
                      "cluster.ca is not that of 10.5.0.2",
                      {"-n", kWorker, "services"},
                      "kubelet"}),
      {"a CA has expired",
       endAggregatorCa,
       "authority-expired",
       "the CA of the aggregation layer of Kubernetes (cluster.aggregatorCA) has expired",
       {"-n", kMaster, "get", "machineconfig", "-o", "yaml"},
       "aggregatorCA"},
      {"a machine of another cluster has the address of a worker",
       replaceByAnotherCluster,
       "node-certificate",
       "the node and the endpoint do not have the same CA (machine.ca)",
       {"-n", kWorker, "version"},
       "certificate"},
      {"the token of a worker is wrong",
       joinWithWrongToken,
       "join",
       "trustd refuses the token of the node",
       {"-n", kWorker, "service", "apid"},
       "wrong token"},
  };
}

}  // namespace talos
