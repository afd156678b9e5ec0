// Illnesses of clusters with three control planes: members of etcd, their certificates, their data
// and their quorum, and an API server beside others that answer.
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>

#include "common/config/config.h"
#include "common/tls/pki.h"
#include "tests/harness/filled-disk.h"
#include "tests/kubernetes/illnesses.h"

namespace talos {
namespace {

constexpr const char* kThird = "10.5.0.4";
const Words kMembers = {"-n", kMaster, "etcd", "members"};
// With this flag diagnose calls no other node.
const Words kOnlyTheFirst = {"-n", kMaster};

const KubeNode& second(Patient& patient) {
  return patient.cluster.nodes[1];
}
const KubeNode& third(Patient& patient) {
  return patient.cluster.nodes[2];
}

// --- etcd that does not run, or answers nothing

std::vector<Illness> ofServices() {
  return {
      typed({"one member hangs", [](Patient& p) { p.freeze(third(p), "etcd"); }, "etcd-member",
             "the member of etcd does not answer, although its node does", kMembers,
             "no answer within"}),
      typed({"two members hang",
             [](Patient& p) {
               p.freeze(second(p), "etcd");
               p.freeze(third(p), "etcd");
             },
             "etcd-member", "etcd has no quorum", kMembers, "no answer within"}),
      typed({"one member is stopped", [](Patient& p) { p.stop(third(p), "etcd"); }, "etcd",
             "etcd does not run: it has been stopped", services(kThird), "Service stopped"}),
      editedOn(third,
               {"one member has a wrong argument",
                [](Patient& p) { wrongArgument(p, third(p), {"cluster", "etcd"}); }, "etcd",
                "flag provided but not defined: -bogus", services(kThird), "exited with status 2"}),
  };
}

// --- members that others lack

void removeThird(Patient& patient) {
  patient.cluster.talos.ok(
      patient.cluster.at(patient.master, {"etcd", "remove-member", third(patient).name}), kShown);
}

std::vector<Illness> ofMembership() {
  return {
      typed({"the others have removed one member",
             removeThird,
             "etcd-join",
             "etcd of this node is not a member of the cluster: the others have removed it",
             {"-n", kThird, "get", "etcdstatus"},
             "removed this one"}),
      {"the node of a member is off", [](Patient& p) { p.power(third(p), false); }, "etcd-member",
       "the member sick-master-3 of etcd does not answer", kMembers, "sick-master-3", nullptr,
       false, kOnlyTheFirst},
      {"the nodes of two members are off",
       [](Patient& p) {
         p.power(second(p), false);
         p.power(third(p), false);
       },
       "etcd-quorum", "no answer from 2 of 3 members: sick-master-2 10.5.0.3, sick-master-3 10.5",
       kMembers, "sick-master-3", nullptr, false, kOnlyTheFirst},
  };
}

// --- certificates

const std::string kPki = "/etc/kubernetes/pki/etcd/";
constexpr unsigned kEtcdUid = 60;
struct CertificateFile {
  const char *name, *expired;
};
constexpr CertificateFile kFiles[] = {{"peer.crt", "expired.crt"},
                                      {"peer.key", "expired.key"},
                                      {"server.crt", "expired.crt"},
                                      {"server.key", "expired.key"}};

void mountCertificates(const Patient& patient, const KubeNode& node, bool on) {
  harness::inMountsOf(patient.cluster.talos.process(node.name), [&] {
    int status = 0;
    for (auto& [name, expired] : kFiles) {
      auto path = kPki + name;
      status |= on ? mount((kPki + expired).c_str(), path.c_str(), "", MS_BIND, nullptr)
                   : umount2(path.c_str(), MNT_DETACH);
    }
    return status;
  });
}

// A node whose clock was wrong has such certificates. They are mounted over the node's files, which
// the node would replace before the others connect again.
void expireThird(Patient& patient) {
  auto text = patient.configText(third(patient));
  auto config = config::parse(kj::StringPtr(text.c_str()));
  auto authority = config.get().getCluster().getEtcd().getCa();
  auto leaf =
      pki::issue(kj::str(authority.getCrt().asChars()), kj::str(authority.getKey().asChars()),
                 {.commonName = "expired",
                  .addresses = kj::arr(kj::str(kThird), kj::str("127.0.0.1")),
                  .lifetime = 720 * kj::HOURS,
                  .notBefore = kj::UNIX_EPOCH + 365 * 50 * kj::DAYS});
  auto process = patient.cluster.talos.process(third(patient).name);
  auto folder = "/proc/" + std::to_string(process) + "/root" + kPki;
  auto write = [&](const char* name, kj::StringPtr text) {
    auto path = folder + name;
    std::ofstream(path) << text.cStr();
    EXPECT_EQ(chown(path.c_str(), kEtcdUid, kEtcdUid), 0) << path;
  };
  write("expired.crt", leaf.certificate);
  write("expired.key", leaf.key);
  mountCertificates(patient, third(patient), true);
  patient.cluster.talos.ok(
      patient.cluster.at(patient.master, {"service", "etcd-supervisor", "restart"}));
}

void renewThird(Patient& patient) {
  mountCertificates(patient, third(patient), false);
  patient.cluster.talos.ok(patient.cluster.at(third(patient), {"service", "etcd", "restart"}),
                           kShown);
}

std::vector<Illness> ofCertificates() {
  return {{"the certificate of a member has expired", expireThird, "etcd-certificate",
           "has expired or is not yet valid", kMembers, "certificate has expired", renewThird}};
}

// --- data

void eraseTwo(Patient& patient) {
  auto& talos = patient.cluster.talos;
  for (auto node : {&second(patient), &third(patient)}) {
    talos.ok({"cluster", "node", "kill", node->name}, kShown);
    talos.erase(node->name);
  }
  for (auto node : {&second(patient), &third(patient)}) {
    talos.ok({"cluster", "node", "start", node->name}, kShown);
  }
  for (auto node : {&second(patient), &third(patient)}) {
    awaitShown(patient, *node, {"--timeout", "5s", "get", "etcdstatus"}, "waiting");
    awaitShown(patient, *node, {"service", "cri"}, "OK");  // a start looks like a failure
  }
}

}  // namespace

std::vector<Illness> illnessesOfMembers() {
  auto all = ofServices();
  append(all, ofMembership());
  append(all, ofCertificates());
  return all;
}

std::vector<Illness> illnessesOfOneApiServer() {
  return {
      typed({"one of three API servers hangs",
             [](Patient& p) { p.freeze(third(p), "kube-apiserver"); },
             "api-server",
             "does not answer, although it runs: kube-system/kube-apiserver-sick-master-3",
             {"kubectl", "--server=https://10.5.0.4:6443", "--request-timeout=5s", "get", "nodes"},
             "imeout"})};
}

// `cluster recover` asks on a terminal, which the test does not have.
std::vector<Illness> illnessesThatLoseTheQuorum() {
  return {filledIn({"two members have lost their data", eraseTwo, "etcd-quorum",
                    "2 of 3 members have lost their data: sick-master-2 10.5.0.3, sick-master-3",
                    kMembers, "sick-master-3"},
                   [](Patient& p) {
                     auto file = p.file("newest.db");
                     return Answers{
                         .placeholders = {{"file", file}, {"this file", file + " --yes"}}};
                   })};
}

}  // namespace talos
